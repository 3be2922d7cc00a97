// A toy model of two layers over ranks: whatever the plan, the same bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "layers/activation.h"
#include "layers/boundary/layer_stack.h"
#include "tests/layers/coded_format.h"
#include "tests/layers/support.h"

namespace lamina {
namespace {

using layer_test::CodedInputs;
using layer_test::copy;
using layer_test::expect_bits;
using layer_test::make_coded_format;
using layer_test::Matrix;
using layer_test::normal_matrix;
using layer_test::on_topology;
using layer_test::Tensors;
using layer_test::TestRank;
using Rows = BoundaryOptions::Rows;

constexpr int64_t kHidden = 48, kInner = 96;

std::vector<StageDecl> stages() { return {declare_attn({.group = "attn_tp"}), declare_ffn()}; }

/// A decoder layer whose attention is a mere matrix.
class ToyLayer {
 public:
  ToyLayer(BuildContext& build, LayerId id, bool stage_boundaries)
      : prefix_(cat("layers.", id.value)),
        boundaries_(build.stack().append_stages(id, stage_boundaries ? stages() : std::vector<StageDecl>(), {&norm1_, &norm2_})),
        qkv_proj_(build, {.name = prefix_ + ".qkv_proj", .in_features = kHidden, .out_features = kInner, .group = "attn_tp"}),
        o_proj_(build, {.name = prefix_ + ".o_proj", .in_features = kInner, .out_features = kHidden, .bias = true, .group = "attn_tp"}),
        gate_up_proj_(build, {.name = prefix_ + ".gate_up_proj", .in_features = kHidden}, {{"gate_proj", kInner}, {"up_proj", kInner}}),
        down_proj_(build, {.name = prefix_ + ".down_proj", .in_features = kInner, .out_features = kHidden}),
        norm1_(build, prefix_ + ".norm1", kHidden, 1e-6),
        norm2_(build, prefix_ + ".norm2", kHidden, 1e-6) {
    norm1_.feeds(qkv_proj_);
    norm2_.feeds(gate_up_proj_);
  }

  void forward(ForwardContext& ctx, ResidualStream& stream) const {
    if (boundaries_.empty()) return forward_owning(ctx, stream.owned(ctx));
    boundaries_[0]->finish(stream, attention(ctx, boundaries_[0]->prepare(ctx, stream, norm1_)));
    boundaries_[1]->finish(stream, mlp(ctx, boundaries_[1]->prepare(ctx, stream, norm2_)));
  }

 private:
  Partial attention(ForwardContext& ctx, const Activation& x) const {
    return o_proj_.forward(ctx, ConstF32View(qkv_proj_.forward(ctx, x)));
  }
  Partial mlp(ForwardContext& ctx, const Activation& x) const {
    return down_proj_.forward(ctx, silu_and_mul(ctx, gate_up_proj_.forward(ctx, x), down_proj_));
  }
  void forward_owning(ForwardContext& ctx, F32View residual) const {
    ctx.memory.next_stage();
    ctx.compute.kernels->add_rows(residual, PartialAccess::reduce(attention(ctx, norm1_.forward(ctx, residual))));
    ctx.memory.next_stage();
    ctx.compute.kernels->add_rows(residual, PartialAccess::reduce(mlp(ctx, norm2_.forward(ctx, residual))));
  }

  std::string prefix_;
  std::vector<const StageBoundary*> boundaries_;
  ColumnParallelLinear qkv_proj_;
  RowParallelLinear o_proj_;
  MergedColumnParallelLinear gate_up_proj_;
  RowParallelLinear down_proj_;
  RmsNorm norm1_, norm2_;
};

Tensors toy_tensors() {
  Tensors out = {{"norm.weight", normal_matrix(kHidden, 1, 100)}};
  uint32_t seed = 101;
  for (const int layer : {0, 1}) {
    const auto add = [&](const char* name, int64_t rows, int64_t cols) {
      out[cat("layers.", layer, ".", name)] = normal_matrix(rows, cols, seed++, 0.2F);
    };
    for (const char* name : {"qkv_proj.weight", "gate_proj.weight", "up_proj.weight"}) add(name, kInner, kHidden);
    for (const char* name : {"o_proj.weight", "down_proj.weight"}) add(name, kHidden, kInner);
    for (const char* name : {"norm1.weight", "norm2.weight", "o_proj.bias"}) add(name, kHidden, 1);
  }
  return out;
}

struct ToyRun {
  Topology topology;
  BoundaryOptions options = {};
  std::vector<int64_t> dp_rows = {13};
  bool padded = false;
  bool stage_boundaries = true;
  DType dtype = DType::kF32;
  std::optional<CodedInputs> inputs = {};  // of every matmul
};

/// Adds up over ranks what a boundary was told and what it got over the wire.
class Recorder final : public TapSink {
 public:
  void tap(std::string_view, std::string_view, ConstF32View, int64_t) override {}
  void wire(std::string_view module, std::string_view boundary, uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    bytes_[cat(module, ".", boundary)] += bytes;
  }
  std::map<std::string, uint64_t> bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  std::map<std::string, uint64_t> bytes_;
};

/// The hidden states after the final norm that each rank of the last stage has, and the residual before the last layer.
struct ToyResult {
  std::vector<Matrix> hidden, captured;
  std::map<std::string, uint64_t> counted, planned;
};

ToyResult run_toy(const ToyRun& run) {
  const Tensors tensors = toy_tensors();
  const int64_t full = std::accumulate(run.dp_rows.begin(), run.dp_rows.end(), int64_t{0});
  const Matrix embedding = normal_matrix(full, kHidden, 99);
  ToyResult out;
  out.hidden.resize(static_cast<size_t>(run.topology.tp_size));
  out.captured = out.hidden;
  Recorder recorder;
  layer_test::RankOptions rank_options(run.dtype, run.options);
  if (run.inputs) rank_options.make_format = [&] { return make_coded_format(*run.inputs); };
  on_topology(run.topology, rank_options, [&](TestRank& rank) {
    const bool first = rank.index("pp") == 0, last = rank.index("pp") + 1 == run.topology.pp_size;
    LayerStack& stack = rank.stack;
    const StageLayers stage = stage_layers(2, run.topology, rank.index("pp")).value();
    stack.open(2, stage, [&](LayerId) { return run.stage_boundaries ? stages() : std::vector<StageDecl>(); });
    std::vector<std::unique_ptr<ToyLayer>> layers;
    Tensors own;
    for (int64_t id = stage.begin; id < stage.end(); ++id) {
      layers.push_back(std::make_unique<ToyLayer>(rank.build, LayerId(static_cast<int32_t>(id)), run.stage_boundaries));
    }
    const RmsNorm norm(rank.build, "norm", kHidden, 1e-6);
    const Status closed = stack.close();
    ASSERT_TRUE(closed.ok()) << closed.error().message;
    rank.load(tensors);
    rank.set_dp_rows(run.dp_rows);
    rank.batch.dp_padded = run.padded;
    rank.ctx.variant = stack.choose(rank.batch);
    rank.ctx.taps = &recorder;
    Matrix residual = embedding, captured(rank.batch.rows(), kHidden);
    ResidualStream stream = first ? stack.start(rank.ctx, residual.view()) : stack.receive(rank.ctx, kHidden);
    for (const auto& layer : layers) {
      if (layer == layers.back()) stream.capture_next(captured.view());
      layer->forward(rank.ctx, stream);
    }
    Communicator& tp = *rank.groups.find("tp").value()->communicator;
    if (!last) {
      stack.hand_over(stream);
      return tp.barrier();  // nobody goes while others read its memory
    }
    out.hidden[static_cast<size_t>(rank.index())] = copy(stack.final_boundary().prepare(rank.ctx, stream, norm));
    out.captured[static_cast<size_t>(rank.index())] = captured;
    tp.barrier();
    if (rank.index() != 0 || !run.stage_boundaries) return;
    for (const BoundarySummary& summary : stack.summaries()) {
      for (const BoundarySummary::Variant& v : summary.variants) {
        if (v.variant != rank.ctx.variant) continue;
        const bool final_norm = summary.norm == nullptr;
        const int64_t element = dtype_bytes(final_norm ? DType::kF32 : summary.norm->output_dtype());
        std::string name = "model.norm.boundary";
        if (!final_norm) {
          const size_t space = summary.stage.rfind(' ');
          name = cat("model.layers.", summary.stage.substr(6, space - 6), ".", summary.stage.substr(space + 1), "_boundary");
        }
        out.planned[name] = static_cast<uint64_t>(wire_bytes_per_row(v.plan, kHidden, element) * full);
      }
    }
  });
  out.counted = recorder.bytes();
  return out;
}

/// Every option of a topology that may not change a bit.
std::vector<ToyRun> plans(const ToyRun& base) {
  std::vector<ToyRun> out;
  for (const bool fused : {false, true}) {
    for (const Rows rows : {Rows::kReplicated, Rows::kScattered}) {
      out.push_back(base);
      out.back().options = {.fused = fused, .rows = rows};
    }
  }
  return out;
}

void expect_same(const ToyResult& got, const ToyResult& wanted) {
  for (size_t r = 0; r < wanted.hidden.size(); ++r) {
    expect_bits(got.hidden[r], wanted.hidden[r]);
    expect_bits(got.captured[r], wanted.captured[r]);
  }
}

TEST(ToyStack, SeveralRanksGiveTheResultOfOneWithinF32Rounding) {
  const Matrix alone = run_toy({.topology = {}}).hidden.front();
  const auto [low, high] = std::minmax_element(alone.values.begin(), alone.values.end());
  ASSERT_GT(*high - *low, 1.0F) << "the data is constant";
  // Four stages, each with sums of up to kInner terms that are added in another order.
  const double bound = std::ldexp(std::max(-*low, *high), -24) * 4 * kInner;
  for (const Topology& topology : {Topology{.tp_size = 2}, Topology{.tp_size = 3}, Topology{.tp_size = 4}, Topology{.pp_size = 2}}) {
    for (const Matrix& split : run_toy({.topology = topology}).hidden) {
      for (size_t i = 0; i < alone.values.size(); ++i)
        ASSERT_NEAR(split.values[i], alone.values[i], bound) << topology.tp_size << " ranks, element " << i;
    }
  }
}

TEST(ToyStack, NoPlanChangesABit) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t rows : {1, 2, 8, 13}) {
      for (const int ranks : {1, 2, 3, 4}) {
        const ToyRun base{.topology = {.tp_size = ranks}, .options = {.fused = false}, .dp_rows = {rows}, .dtype = dtype};
        const ToyResult wanted = run_toy(base);
        for (const Matrix& other : wanted.hidden) expect_bits(other, wanted.hidden[0]);
        for (const ToyRun& run : plans(base)) expect_same(run_toy(run), wanted);
      }
    }
  }
}

TEST(ToyStack, NoPlanChangesABitUnderAttentionDp) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{{5, 8}, {0, 3}, {4, 0}, {6, 6}, {0, 0}}) {
      for (const int tp : {2, 4, 6}) {
        const ToyRun base{.topology = {.tp_size = tp, .dp_attention = 2}, .dp_rows = rows, .padded = rows[0] == rows[1], .dtype = dtype};
        const std::vector<ToyRun> runs = plans(base);
        const ToyResult wanted = run_toy(runs[0]);
        for (const ToyRun& run : runs) expect_same(run_toy(run), wanted);
      }
    }
  }
}

TEST(ToyStack, RowsOfAttentionDpAreThoseOfARunWithoutIt) {
  // attn_tp 1 on both sides: attention has the same bits; the MLP is cut alike.
  const Matrix whole = run_toy({.topology = {.tp_size = 2, .dp_attention = 2}, .dp_rows = {13, 0}}).hidden[0];
  const ToyResult split = run_toy({.topology = {.tp_size = 2, .dp_attention = 2}, .dp_rows = {5, 8}});
  ASSERT_EQ(split.hidden[0].rows + split.hidden[1].rows, whole.rows);
  for (int64_t r = 0; r < 5; ++r)
    for (int64_t c = 0; c < kHidden; ++c) ASSERT_EQ(split.hidden[0].at(r, c), whole.at(r, c));
  for (int64_t r = 0; r < 8; ++r)
    for (int64_t c = 0; c < kHidden; ++c) ASSERT_EQ(split.hidden[1].at(r, c), whole.at(5 + r, c));
}

TEST(ToyStack, StagesOfAPipelineHaveTheBitsOfOneStage) {
  for (const Topology& topology : {Topology{}, Topology{.tp_size = 2}, Topology{.tp_size = 4, .dp_attention = 2}}) {
    Topology split = topology;
    split.pp_size = 2;
    const std::vector<int64_t> rows = topology.dp_attention == 2 ? std::vector<int64_t>{5, 8} : std::vector<int64_t>{13};
    const ToyResult wanted = run_toy({.topology = topology, .dp_rows = rows});
    for (const ToyRun& run : plans({.topology = split, .dp_rows = rows})) expect_same(run_toy(run), wanted);
  }
}

TEST(ToyStack, LayersThatOwnTheirResidualHaveTheBitsOfBoundaries) {
  for (const int ranks : {1, 2}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const ToyRun bound{.topology = {.tp_size = ranks}, .dtype = dtype};
      ToyRun owning = bound;
      owning.stage_boundaries = false;
      expect_same(run_toy(owning), run_toy(bound));
    }
  }
}

TEST(ToyStack, BytesOnTheWireAreThoseThatTheBoundariesPlanned) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const ToyRun one{.topology = {.tp_size = 3}, .dp_rows = {13}, .dtype = dtype};
    const ToyRun dp{.topology = {.tp_size = 4, .dp_attention = 2}, .dp_rows = {5, 8}, .dtype = dtype};
    for (const ToyRun& base : {one, dp}) {
      for (const ToyRun& run : plans(base)) {
        const ToyResult result = run_toy(run);
        // A capture gathers a scattered residual; the layer whose boundary serves it is not compared.
        std::map<std::string, uint64_t> counted = result.counted, planned = result.planned;
        EXPECT_EQ(counted.size(), 5U);
        counted.erase("model.layers.1.attention_boundary"), planned.erase("model.layers.1.attention_boundary");
        EXPECT_EQ(counted, planned) << "fused " << run.options.fused << " scattered " << (run.options.rows == Rows::kScattered);
      }
    }
  }
}

/// Static scales in both kinds of codes; scales of rows.
std::vector<CodedInputs> coded_inputs() {
  return {{.codes = DType::kU8, .scale = 0.02F}, {.codes = DType::kBF16, .scale = 0.01F}, {.codes = DType::kU8}, {.codes = DType::kBF16}};
}

TEST(ToyStack, InputsWrittenAsCodesChangeNoBit) {
  const std::vector<ToyRun> bases = {{.topology = {}, .dp_rows = {13}},
                                     {.topology = {}, .dp_rows = {1}},
                                     {.topology = {.tp_size = 3}, .dp_rows = {13}},
                                     {.topology = {.tp_size = 2}, .dp_rows = {1}},
                                     {.topology = {.tp_size = 2, .pp_size = 2}, .dp_rows = {5}},
                                     {.topology = {.tp_size = 4, .dp_attention = 2}, .dp_rows = {5, 8}},
                                     {.topology = {.tp_size = 2, .dp_attention = 2}, .dp_rows = {6, 6}, .padded = true}};
  for (CodedInputs inputs : coded_inputs()) {
    for (ToyRun base : bases) {
      layer_test::InputCounts unfused, fused;
      inputs.counts = &unfused;
      base.inputs = inputs;
      const std::vector<ToyRun> runs = plans(base);
      const ToyResult wanted = run_toy(runs[0]);
      EXPECT_EQ(unfused.coded, 0);
      EXPECT_GT(unfused.plain, 0);
      inputs.counts = &fused;
      for (ToyRun run : runs) {
        run.inputs = inputs;
        fused.coded = fused.plain = 0;
        expect_same(run_toy(run), wanted);
        if (!run.options.fused) continue;
        // Of the four matmuls of a layer the attention's output alone is no norm and no gate.
        const int matmuls = fused.coded + fused.plain, cut = run.topology.tp_size;
        EXPECT_EQ(fused.coded, inputs.scale ? matmuls / 4 * 3 : cut == 1 ? matmuls / 4 : 0) << "ranks " << cut;
      }
    }
  }
}

TEST(ToyStack, BytesOfCodesOnTheWireAreThoseThatTheBoundariesPlanned) {
  for (const CodedInputs& inputs : coded_inputs()) {
    for (const ToyRun& run : plans({.topology = {.tp_size = 4, .dp_attention = 2}, .dp_rows = {5, 8}, .inputs = inputs})) {
      ToyResult result = run_toy(run);
      for (auto* bytes : {&result.counted, &result.planned}) bytes->erase("model.layers.1.attention_boundary");  // as above
      EXPECT_EQ(result.counted, result.planned) << "fused " << run.options.fused;
    }
  }
}

}  // namespace
}  // namespace lamina
