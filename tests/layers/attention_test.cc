#include "layers/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "base/strings.h"
#include "layers/boundary/layer_stack.h"
#include "layers/rotary.h"

namespace lamina {
namespace {

using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int kQkDim = 20, kVDim = 12;  // unlike each other and no multiples of a vector

float rounded(DType dtype, float value) { return dtype == DType::kF32 ? value : bf16_to_f32(f32_to_bf16(value)); }

float load(const KvTensor& tensor, int64_t index) {
  return tensor.dtype == DType::kF32 ? static_cast<const float*>(tensor.base)[index]
                                     : bf16_to_f32(static_cast<const uint16_t*>(tensor.base)[index]);
}
void write(const KvTensor& tensor, int64_t index, float value) {
  if (tensor.dtype == DType::kF32)
    static_cast<float*>(tensor.base)[index] = value;
  else
    static_cast<uint16_t*>(tensor.base)[index] = f32_to_bf16(value);
}

/// A BuildContext with nothing in it.
struct Build {
  struct NoFormat final : WeightFormat {
    const char* name() const override { return "none"; }
    Result<std::unique_ptr<LinearWeights>> create_weights(const LinearShape&, ParamList&) const override { return error("no weights"); }
  };
  ParallelGroups groups = ParallelGroups::single();
  NoFormat format;
  ParamList params;
  LayerStack stack{groups};
  RotarySet rotary;
  BuildContext context{groups, format, params, stack, rotary};
};

RadixAttentionSpec valid_spec() {
  RadixAttentionSpec spec;
  spec.name = "model.layers.3.self_attn.attn";
  spec.layer_id = LayerId(3);
  spec.q_heads = 4, spec.kv_heads = 2;
  spec.qk_dim = kQkDim, spec.v_dim = kVDim;
  spec.scale = 0.6F;
  return spec;
}

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;
  Matrix() = default;
  Matrix(int64_t r, int64_t c, float fill) : rows(r), cols(c), values(static_cast<size_t>(r * c), fill) {}
  float* row(int64_t r) { return values.data() + r * cols; }
  const float* row(int64_t r) const { return values.data() + r * cols; }
  ConstF32View view() const { return {values.data(), rows, cols}; }
};

struct SequencePlan {
  int64_t prefix = 0, rows = 0;
  int64_t length() const { return prefix + rows; }
};
using Plan = std::vector<SequencePlan>;

/// Queries of a step and the keys and values of every position of its sequences, before rounding.
struct Data {
  Plan plan;
  Matrix q;                          // [real rows, q_heads * kQkDim]
  std::vector<Matrix> keys, values;  // a sequence: [length, kv_heads * dim]
};

Data make_data(const Plan& plan, int q_heads, int kv_heads, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto filled = [&](int64_t rows, int64_t cols) {
    Matrix m(rows, cols, 0.0F);
    for (float& value : m.values) value = normal(random);
    return m;
  };
  Data data;
  data.plan = plan;
  int64_t rows = 0;
  for (const SequencePlan& sequence : plan) {
    rows += sequence.rows;
    data.keys.push_back(filled(sequence.length(), kv_heads * kQkDim));
    data.values.push_back(filled(sequence.length(), kv_heads * kVDim));
  }
  data.q = filled(rows, q_heads * kQkDim);
  return data;
}

// --- the oracle ---------------------------------------------------------------------------------------------------------------------

struct Expected {
  std::vector<double> value, tolerance;  // [real rows, q_heads * kVDim]
};

bool visible(const RadixAttentionSpec& spec, int64_t query, int64_t key) {
  if (spec.type == AttentionType::kDecoder && key > query) return false;
  return spec.window < 0 || std::abs(key - query) < spec.window;
}

/// One row and head over contiguous keys and values, in float64. The tolerance is that of f32 arithmetic: a score is off by at most
/// about dim * eps * sum|q k|, which moves a weight by that share, and the sums of the softmax add eps each.
void oracle_row(const RadixAttentionSpec& spec, DType dtype, const float* query, int64_t position, const Matrix& keys, const Matrix& values,
                int kv_head, Expected& out) {
  std::vector<double> weights(static_cast<size_t>(keys.rows), 0.0);
  double magnitude = spec.logit_cap, largest_value = 0, total = 0, maximum = -1e300;
  for (int64_t p = 0; p < keys.rows; ++p) {
    if (!visible(spec, position, p)) continue;
    double score = 0, sum = 0;
    for (int d = 0; d < kQkDim; ++d) {
      const double product = static_cast<double>(query[d]) * rounded(dtype, keys.row(p)[kv_head * kQkDim + d]);
      score += product, sum += std::abs(product);
    }
    score *= static_cast<double>(spec.scale);
    if (spec.logit_cap > 0) score = spec.logit_cap * std::tanh(score / spec.logit_cap);
    magnitude = std::max(magnitude, sum * spec.scale);
    maximum = std::max(maximum, score);
    weights[static_cast<size_t>(p)] = score;
  }
  std::vector<double> mean(kVDim, 0.0);
  for (int64_t p = 0; p < keys.rows; ++p) {
    if (!visible(spec, position, p)) continue;
    const double weight = std::exp(weights[static_cast<size_t>(p)] - maximum);
    total += weight;
    for (int d = 0; d < kVDim; ++d) {
      const double value = rounded(dtype, values.row(p)[kv_head * kVDim + d]);
      mean[static_cast<size_t>(d)] += weight * value;
      largest_value = std::max(largest_value, std::abs(value));
    }
  }
  const double eps = std::ldexp(1.0, -24);
  for (const double sum : mean) {
    out.value.push_back(sum / total);
    out.tolerance.push_back(eps * largest_value * (4 * kQkDim * magnitude + 2 * static_cast<double>(keys.rows) + 64));
  }
}

Expected oracle(const Data& data, const RadixAttentionSpec& spec, DType dtype) {
  Expected out;
  int64_t row = 0;
  for (size_t s = 0; s < data.plan.size(); ++s)
    for (int64_t t = 0; t < data.plan[s].rows; ++t, ++row)
      for (int head = 0; head < spec.q_heads; ++head)
        oracle_row(spec, dtype, data.q.row(row) + head * kQkDim, data.plan[s].prefix + t, data.keys[s], data.values[s],
                   head * spec.kv_heads / spec.q_heads, out);
  return out;
}

// --- one step through the adapter ------------------------------------------------------------------------------------------------------

/// A position whose K/V are handed to the adapter.
struct KvEntry {
  size_t sequence = 0;
  int64_t position = 0;
};

/// The K/V of the query rows, in their order.
std::vector<KvEntry> step_entries(const Plan& plan) {
  std::vector<KvEntry> out;
  for (size_t s = 0; s < plan.size(); ++s)
    for (int64_t p = plan[s].prefix; p < plan[s].length(); ++p) out.push_back({s, p});
  return out;
}

struct Options {
  Isa isa = Isa::kRef;
  bool reference = false;
  DType kv_dtype = DType::kF32;
  int page_size = 16;
  int threads = 1;
  int64_t padded_rows = 3;
  bool save = true;
  DType out_dtype = DType::kF32;
};

/// A pool whose unused slots are NaN, page tables out of order, a batch and what came out.
class StepRun {
 public:
  StepRun(const Data& data, const RadixAttentionSpec& spec, const Options& setup, const std::vector<KvEntry>& given)
      : data_(data), spec_(spec), setup_(setup), given_(given), pool_(make_pool()) {
    fill_batch();
    fill_pool();
  }

  void forward() {
    Build build;
    const RadixAttention attention(build.context, spec_);
    ASSERT_TRUE(build.context.status().ok()) << build.context.status().error().message;
    const std::unique_ptr<AttentionBackend> backend = setup_.reference ? make_reference_backend() : make_paged_backend();
    ThreadTeam team(setup_.threads, setup_.threads);
    const int64_t out_cols = spec_.q_heads * kVDim;
    const int64_t line = 64 / dtype_bytes(setup_.out_dtype);
    const auto out_bytes = static_cast<size_t>(batch_.rows() * ((out_cols + line - 1) / line) * 64);
    // Exactly what the plan would give.
    StepMemory memory(make_arena(64), make_arena(out_bytes + backend->stage_bytes(spec_, team.size())), make_arena(64));
    ForwardContext ctx{batch_, {&kernels::table(setup_.isa), &team}, memory, pool_, *backend};
    const Matrix q = padded(data_.q, batch_.rows());
    const int64_t kv_rows = given_.size() == static_cast<size_t>(data_.q.rows) ? batch_.rows() : static_cast<int64_t>(given_.size());
    const Matrix keys = padded(given_rows(data_.keys), kv_rows), values = padded(given_rows(data_.values), kv_rows);
    const Activation out = attention.forward(ctx, q.view(), keys.view(), values.view(), setup_.out_dtype, setup_.save);
    ASSERT_EQ(out.rows, batch_.rows());
    ASSERT_EQ(out.cols, out_cols);
    for (int64_t r = 0; r < out.rows; ++r)
      for (int64_t c = 0; c < out.cols; ++c)
        out_.push_back(out.dtype == DType::kF32 ? out.f32().at(r, c) : bf16_to_f32(out.bf16().at(r, c)));
  }

  /// [rows, q_heads * kVDim]
  const std::vector<float>& out() const { return out_; }

  /// Real rows within the tolerance, padded rows zero.
  void expect(const Expected& expected) const {
    ASSERT_EQ(out_.size(), static_cast<size_t>(batch_.rows() * spec_.q_heads * kVDim));
    for (size_t i = 0; i < out_.size(); ++i) {
      const double value = i < expected.value.size() ? expected.value[i] : 0.0;
      const double tolerance = i < expected.value.size() ? expected.tolerance[i] : 0.0;
      ASSERT_LE(std::abs(out_[i] - value), tolerance)
          << "row " << i / static_cast<size_t>(spec_.q_heads * kVDim) << ": got " << out_[i] << ", wanted " << value;
    }
  }

  /// Every position of a sequence holds its rounded K/V; everything else, the dummy page too, is as untouched as before.
  void expect_pool() const {
    std::map<int64_t, KvEntry> owner;
    for (size_t s = 0; s < data_.plan.size(); ++s)
      for (int64_t p = 0; p < data_.plan[s].length(); ++p) owner[slot(s, p)] = {s, p};
    expect_tensor(pool_.keys(spec_.layer_id), data_.keys, owner);
    expect_tensor(pool_.values(spec_.layer_id), data_.values, owner);
  }

 private:
  static Arena make_arena(size_t bytes) { return Arena(Buffer::allocate(bytes).value()); }

  int64_t pages_of(size_t sequence) const { return (data_.plan[sequence].length() + setup_.page_size - 1) / setup_.page_size; }

  KvStore make_pool() {
    total_pages_ = 1;  // one that nobody owns, besides the dummy
    for (size_t s = 0; s < data_.plan.size(); ++s) total_pages_ += pages_of(s);
    return KvStore::create({{spec_.kv_heads, kQkDim, kVDim}}, spec_.layer_id, setup_.kv_dtype, static_cast<int32_t>(total_pages_),
                           setup_.page_size)
        .value();
  }

  void fill_batch() {
    int64_t page = total_pages_;  // handed out downwards: neighbouring positions are no neighbouring pages
    for (size_t s = 0; s < data_.plan.size(); ++s) {
      batch_.sequences.push_back({.row_begin = batch_.real_rows,
                                  .row_count = data_.plan[s].rows,
                                  .prefix_len = data_.plan[s].prefix,
                                  .page_begin = static_cast<int64_t>(batch_.pages.size())});
      for (int64_t i = 0; i < pages_of(s); ++i) batch_.pages.push_back(static_cast<int32_t>(page--));
      batch_.real_rows += data_.plan[s].rows;
    }
    batch_.page_size = setup_.page_size;
    batch_.input_ids.assign(static_cast<size_t>(batch_.real_rows + setup_.padded_rows), 0);
    for (const KvEntry& entry : given_) batch_.out_cache_loc.push_back(slot(entry.sequence, entry.position));
    if (given_.size() == static_cast<size_t>(batch_.real_rows)) batch_.out_cache_loc.resize(batch_.input_ids.size(), 0);
  }

  /// NaN everywhere but at positions that are not handed to the adapter (all of them when it does not save).
  void fill_pool() {
    const int64_t slots = (total_pages_ + 1) * setup_.page_size;
    for (const KvTensor* tensor : {&pool_.keys(spec_.layer_id), &pool_.values(spec_.layer_id)})
      for (int64_t i = 0; i < slots * tensor->slot_stride; ++i) write(*tensor, i, kNaN);
    for (size_t s = 0; s < data_.plan.size(); ++s)
      for (int64_t p = 0; p < data_.plan[s].length(); ++p) {
        const auto same = [&](const KvEntry& entry) { return entry.sequence == s && entry.position == p; };
        if (setup_.save && std::any_of(given_.begin(), given_.end(), same)) continue;
        for (int64_t c = 0; c < data_.keys[s].cols; ++c)
          write(pool_.keys(spec_.layer_id), index(slot(s, p), c, true), data_.keys[s].row(p)[c]);
        for (int64_t c = 0; c < data_.values[s].cols; ++c)
          write(pool_.values(spec_.layer_id), index(slot(s, p), c, false), data_.values[s].row(p)[c]);
      }
  }

  int64_t index(int64_t slot_index, int64_t column, bool key) const {
    const KvTensor& tensor = key ? pool_.keys(spec_.layer_id) : pool_.values(spec_.layer_id);
    return slot_index * tensor.slot_stride + column;
  }
  int64_t slot(size_t sequence, int64_t position) const {
    const auto page = static_cast<size_t>(batch_.sequences[sequence].page_begin + position / setup_.page_size);
    return batch_.pages[page] * int64_t{setup_.page_size} + position % setup_.page_size;
  }

  /// K or V of the given entries; NaN when nothing of them may be used.
  Matrix given_rows(const std::vector<Matrix>& source) const {
    Matrix out(static_cast<int64_t>(given_.size()), source.front().cols, kNaN);
    for (size_t i = 0; setup_.save && i < given_.size(); ++i)
      std::copy_n(source[given_[i].sequence].row(given_[i].position), out.cols, out.row(static_cast<int64_t>(i)));
    return out;
  }
  static Matrix padded(const Matrix& m, int64_t rows) {
    Matrix out(rows, m.cols, kNaN);
    std::copy(m.values.begin(), m.values.end(), out.values.begin());
    return out;
  }

  void expect_tensor(const KvTensor& tensor, const std::vector<Matrix>& source, const std::map<int64_t, KvEntry>& owner) const {
    for (int64_t at = 0; at < (total_pages_ + 1) * setup_.page_size; ++at) {
      const auto found = owner.find(at);
      for (int64_t c = 0; c < tensor.slot_stride; ++c) {
        const float actual = load(tensor, at * tensor.slot_stride + c);
        if (found == owner.end()) {
          ASSERT_TRUE(std::isnan(actual)) << "slot " << at << " belongs to nobody and was written";
        } else {
          const KvEntry entry = found->second;
          ASSERT_EQ(actual, rounded(tensor.dtype, source[entry.sequence].row(entry.position)[c])) << "slot " << at;
        }
      }
    }
  }

  const Data& data_;
  const RadixAttentionSpec& spec_;
  const Options& setup_;
  const std::vector<KvEntry>& given_;
  int64_t total_pages_ = 0;
  KvStore pool_;
  ForwardBatch batch_;
  std::vector<float> out_;
};

/// Every backend on every ISA of this machine (the reference backend has none).
std::vector<Options> backends() {
  std::vector<Options> out = {{.reference = true}};
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512})
    if (choose_isa(decode_features(read_cpuid()), isa_name(isa)).ok()) out.push_back({.isa = isa});
  return out;
}

std::string describe(const Options& setup) {
  return cat(setup.reference ? "reference" : cat("paged ", isa_name(setup.isa)), ", kv ", dtype_name(setup.kv_dtype), ", page size ",
             setup.page_size);
}

// --- the table ------------------------------------------------------------------------------------------------------------------------

struct Heads {
  const char* name;
  int q, kv;
};
struct Type {
  const char* name;
  AttentionType type;
};
constexpr Heads kHeads[] = {{"Mha", 2, 2}, {"Gqa", 4, 2}, {"Mqa", 3, 1}};
constexpr Type kTypes[] = {{"Decoder", AttentionType::kDecoder},
                           {"Bidirectional", AttentionType::kDecoderBidirectional},
                           {"EncoderOnly", AttentionType::kEncoderOnly}};
const std::map<std::string, Plan> kScenarios = {
    {"prefill", {{0, 70}}}, {"chunked", {{90, 37}}}, {"decode", {{130, 1}}}, {"ragged", {{0, 5}, {130, 1}, {40, 30}, {3, 1}}}};

class AttentionTable : public testing::TestWithParam<std::tuple<Heads, Type>> {
 protected:
  /// All backends and page sizes for one set of options. Page size and threads change no bit.
  static void check(const Data& data, const RadixAttentionSpec& spec, DType kv_dtype) {
    const Expected expected = oracle(data, spec, kv_dtype);
    const auto [low, high] = std::minmax_element(expected.value.begin(), expected.value.end());
    ASSERT_GT(*high - *low, 0.1) << "the data does not vary";
    const std::vector<KvEntry> given = step_entries(data.plan);
    for (Options setup : backends()) {
      std::vector<float> first;
      setup.kv_dtype = kv_dtype;
      for (const int page_size : {1, 16}) {
        setup.page_size = page_size;
        setup.threads = page_size == 1 ? 1 : 2;
        SCOPED_TRACE(describe(setup));
        StepRun run(data, spec, setup, given);
        run.forward();
        run.expect(expected);
        run.expect_pool();
        if (testing::Test::HasFatalFailure()) return;
        if (page_size == 1) first = run.out();
        ASSERT_EQ(first, run.out());
      }
    }
  }
};

TEST_P(AttentionTable, EqualsFloat64) {
  const auto [heads, type] = GetParam();
  constexpr uint64_t kSeed = 20240607;
  for (const auto& [name, plan] : kScenarios) {
    const Data data = make_data(plan, heads.q, heads.kv, kSeed);
    for (const int64_t window : {-1, 1, 8, 100})
      for (const float cap : {0.0F, 30.0F})
        for (const DType kv_dtype : {DType::kF32, DType::kBF16}) {
          SCOPED_TRACE(cat(name, ", window ", window, ", cap ", cap, ", seed ", kSeed));
          RadixAttentionSpec spec = valid_spec();
          spec.q_heads = heads.q, spec.kv_heads = heads.kv;
          spec.type = type.type;
          spec.window = window, spec.logit_cap = cap;
          check(data, spec, kv_dtype);
          if (HasFatalFailure()) return;
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Options, AttentionTable, testing::Combine(testing::ValuesIn(kHeads), testing::ValuesIn(kTypes)),
                         [](const auto& param) { return std::string(std::get<0>(param.param).name) + std::get<1>(param.param).name; });

// --- passes whose keys and values are not those of the query rows ----------------------------------------------------------------------

class AttentionBackends : public testing::TestWithParam<Options> {};

TEST_P(AttentionBackends, WithoutSavingTheyReadThePoolAndWriteNothing) {
  const Data data = make_data({{20, 3}, {0, 4}}, 4, 2, 1);
  const RadixAttentionSpec spec = valid_spec();
  Options setup = GetParam();
  setup.save = false;
  const std::vector<KvEntry> given = step_entries(data.plan);  // handed over as NaN
  StepRun run(data, spec, setup, given);
  run.forward();
  run.expect(oracle(data, spec, setup.kv_dtype));
  run.expect_pool();
}

TEST_P(AttentionBackends, FewerKeysThanQueriesWriteOnlyTheFirstSlots) {
  const Data data = make_data({{20, 6}}, 4, 2, 2);
  const RadixAttentionSpec spec = valid_spec();
  const Options setup = GetParam();
  const std::vector<KvEntry> given = {{0, 20}, {0, 21}};
  StepRun run(data, spec, setup, given);
  run.forward();
  run.expect(oracle(data, spec, setup.kv_dtype));
  run.expect_pool();
}

TEST_P(AttentionBackends, MoreKeysThanQueriesAreAllWritten) {
  const Data data = make_data({{90, 1}}, 4, 2, 3);
  const RadixAttentionSpec spec = valid_spec();
  const Options setup = GetParam();
  std::vector<KvEntry> given;
  for (int64_t p = 60; p <= 90; ++p) given.push_back({0, p});
  StepRun run(data, spec, setup, given);
  run.forward();
  run.expect(oracle(data, spec, setup.kv_dtype));
  run.expect_pool();
}

TEST_P(AttentionBackends, TheOutputIsRoundedOnceToTheDtypeAskedFor) {
  const Data data = make_data({{20, 6}}, 4, 2, 4);
  const RadixAttentionSpec spec = valid_spec();
  Options setup = GetParam();
  const std::vector<KvEntry> given = step_entries(data.plan);
  StepRun full(data, spec, setup, given);
  full.forward();
  setup.out_dtype = DType::kBF16;
  StepRun half(data, spec, setup, given);
  half.forward();
  ASSERT_EQ(full.out().size(), half.out().size());
  for (size_t i = 0; i < full.out().size(); ++i) EXPECT_EQ(half.out()[i], rounded(DType::kBF16, full.out()[i]));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBackends, testing::ValuesIn(backends()), [](const auto& param) {
  return param.param.reference ? std::string("Reference") : cat("Paged_", isa_name(param.param.isa));
});

// --- the adapter alone ------------------------------------------------------------------------------------------------------------------

struct UncallableBackend final : AttentionBackend {
  const char* name() const override { return "uncallable"; }
  void forward(ForwardContext&, const AttentionCall&) override { ADD_FAILURE() << "called"; }
  size_t stage_bytes(const RadixAttentionSpec&, int) const override { return 0; }
};

struct Idle {
  Build build;
  RadixAttention attention{build.context, valid_spec()};
  ForwardBatch batch;
  StepMemory memory{Arena(Buffer::allocate(64).value()), Arena(Buffer::allocate(4096).value()), Arena(Buffer::allocate(64).value())};
  ThreadTeam team{1, 1};
  KvStore kv = KvStore::create({attention.kv_shape()}, LayerId(3), DType::kF32, 1, 16).value();
  UncallableBackend backend;
  ForwardContext ctx{batch, {&kernels::table(Isa::kRef), &team}, memory, kv, backend};
  Matrix q{2, 4 * kQkDim, kNaN}, k{2, 2 * kQkDim, kNaN}, v{2, 2 * kVDim, kNaN};
  Idle() { batch.input_ids.assign(2, 0), batch.out_cache_loc.assign(2, 0); }
};

TEST(RadixAttention, ABatchWithoutRealRowsCallsNoBackendAndIsZero) {
  Idle idle;
  const ConstF32View out = idle.attention.forward(idle.ctx, idle.q.view(), idle.k.view(), idle.v.view(), DType::kF32).f32();
  ASSERT_EQ(out.rows, 2);
  for (int64_t c = 0; c < out.cols; ++c) EXPECT_EQ(out.at(0, c) + out.at(1, c), 0.0F);
}

TEST(RadixAttentionDeathTest, KeysOfAnotherLayerAreNotShared) {
  Idle idle;
  EXPECT_DEATH(idle.attention.forward(idle.ctx, idle.q.view(), {}, idle.v.view(), DType::kF32), "keys and values of its own");
  EXPECT_DEATH(idle.attention.forward(idle.ctx, idle.q.view(), idle.k.view(), {}, DType::kF32), "keys and values of its own");
}

std::string construction_error(const RadixAttentionSpec& spec) {
  Build build;
  const RadixAttention attention(build.context, spec);
  return build.context.status().ok() ? std::string() : build.context.status().error().message;
}

TEST(RadixAttention, ConstructionRefusesWhatIsNotSupported) {
  EXPECT_EQ(construction_error(valid_spec()), "");
  RadixAttentionSpec spec = valid_spec();
  spec.cross_attention = true;
  EXPECT_THAT(construction_error(spec), HasSubstr("model.layers.3.self_attn.attn: cross-attention is not supported"));
  spec = valid_spec();
  spec.q_heads = 5;
  EXPECT_THAT(construction_error(spec), HasSubstr("5 query heads over 2 key heads"));
  spec = valid_spec();
  spec.kv_heads = 0;
  EXPECT_THAT(construction_error(spec), HasSubstr("over 0 key heads"));
  spec = valid_spec();
  spec.qk_dim = 0;
  EXPECT_THAT(construction_error(spec), HasSubstr("head sizes 0"));
  spec = valid_spec();
  spec.window = 0;
  EXPECT_THAT(construction_error(spec), HasSubstr("window is 0"));
  spec = valid_spec();
  spec.logit_cap = -1;
  EXPECT_THAT(construction_error(spec), HasSubstr("logit cap is -1"));
}

TEST(RadixAttention, ValuesAreAsWideAsKeysUnlessSaidOtherwise) {
  Build build;
  RadixAttentionSpec spec = valid_spec();
  spec.v_dim = 0;
  const RadixAttention attention(build.context, spec);
  EXPECT_EQ(attention.kv_shape().v_dim, kQkDim);
  EXPECT_TRUE(build.context.status().ok());
}

}  // namespace
}  // namespace lamina
