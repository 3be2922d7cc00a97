#include "weights/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

using fixture::Tensors;
using testing::HasSubstr;
using toy::Files;
using toy::Model;

/// A tensor as the file holds it.
std::vector<float> on_disk(const std::string& name, int64_t rows, int64_t cols) {
  std::vector<float> out;
  for (int64_t i = 0; i < rows * cols; ++i) out.push_back(toy::value(name, i));
  return out;
}

/// A run of rows or columns.
struct Span {
  int64_t begin, count;
};

/// These rows and columns of a tensor on disk of `width` columns.
void append(std::vector<float>& out, const std::string& name, int64_t width, Span rows, Span cols) {
  for (int64_t r = rows.begin; r < rows.begin + rows.count; ++r) {
    for (int64_t c = cols.begin; c < cols.begin + cols.count; ++c) out.push_back(toy::value(name, r * width + c));
  }
}

/// What the arithmetic of the facts gives rank `rank` of `ranks`, written out without src/weights/shard.
struct Expected {
  Expected(int ranks, int rank) {
    using namespace toy;
    const int64_t nq = kHeads / ranks;
    const int64_t nk = std::max<int64_t>(1, kKvHeads / ranks);
    const int64_t replicas = std::max<int64_t>(1, ranks / kKvHeads);
    const int64_t kv_row = rank / replicas * nk * kHeadDim;
    const int64_t inner = kInner / ranks;
    const std::string attn = "model.layers.0.self_attn.";
    const Span q_rows = {rank * nq * kHeadDim, nq * kHeadDim};
    const Span kv_rows = {kv_row, nk * kHeadDim};
    const Span all = {0, kHidden};
    for (const int64_t cols : {kHidden, int64_t{1}}) {
      std::vector<float>& out = cols == 1 ? qkv_bias : qkv;
      const std::string leaf = cols == 1 ? ".bias" : ".weight";
      append(out, attn + "q_proj" + leaf, cols, q_rows, {0, cols});
      append(out, attn + "k_proj" + leaf, cols, kv_rows, {0, cols});
      append(out, attn + "v_proj" + leaf, cols, kv_rows, {0, cols});
    }
    append(o, attn + "o_proj.weight", kHeads * kHeadDim, all, q_rows);
    append(gate_up, "model.layers.0.mlp.gate_proj.weight", kHidden, {rank * inner, inner}, all);
    append(gate_up, "model.layers.0.mlp.up_proj.weight", kHidden, {rank * inner, inner}, all);
    append(down, "model.layers.0.mlp.down_proj.weight", kInner, all, {rank * inner, inner});
    const int64_t share = ((kVocab + ranks - 1) / ranks + 63) / 64 * 64;
    const int64_t first = std::min(kVocab, rank * share);
    append(embed, "model.embed_tokens.weight", kHidden, {first, std::min(share, kVocab - first)}, all);
    embed.resize(static_cast<size_t>(share * kHidden), 0.0F);
  }
  std::vector<float> embed, qkv, qkv_bias, o, gate_up, down;
};

void expect_rank(const Model& model, int ranks, int rank) {
  SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << ranks);
  const Expected want(ranks, rank);
  EXPECT_EQ(model.matrix(toy::kEmbed), want.embed);
  EXPECT_EQ(model.matrix(toy::kQkv), want.qkv);
  EXPECT_EQ(model.values(toy::kQkv + ".bias"), want.qkv_bias);
  EXPECT_EQ(model.matrix(toy::kOut), want.o);
  EXPECT_EQ(model.matrix(toy::kGateUp), want.gate_up);
  EXPECT_EQ(model.matrix(toy::kDown), want.down);
  EXPECT_EQ(model.values("model.norm.weight"), on_disk("model.norm.weight", toy::kHidden, 1));
}

struct LoadCase {
  const char* name;
  DType file;
  DType model;
  bool fused;
  int shards;
};

class Load : public testing::TestWithParam<LoadCase> {};

TEST_P(Load, EveryRankHoldsItsCutOfTheFile) {
  Tensors tensors = toy::tensors(GetParam().file);
  if (GetParam().fused) toy::fuse_all(tensors);
  const Files files(tensors, GetParam().shards);
  for (const int ranks : {1, 2, 4, 8}) {
    for (int rank = 0; rank < ranks; ++rank) {
      Model model(ranks, rank, GetParam().model);
      ASSERT_EQ(toy::load(files, model), "");
      expect_rank(model, ranks, rank);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Load,
    testing::Values(LoadCase{"Split", DType::kF32, DType::kF32, false, 1}, LoadCase{"Fused", DType::kF32, DType::kF32, true, 1},
                    LoadCase{"ThreeFiles", DType::kF32, DType::kF32, false, 3}, LoadCase{"Bf16", DType::kBF16, DType::kBF16, false, 1},
                    LoadCase{"FusedBf16", DType::kBF16, DType::kBF16, true, 2}, LoadCase{"F16Exact", DType::kF16, DType::kF16, false, 1},
                    LoadCase{"F16AsBf16", DType::kF16, DType::kBF16, false, 1}, LoadCase{"F32AsBf16", DType::kF32, DType::kBF16, true, 1}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Loader, MixedTypesOfAFusedParameterLoad) {
  Tensors tensors = toy::tensors(DType::kBF16);
  for (const auto& [name, dtype] :
       {std::pair{"model.layers.0.self_attn.k_proj.weight", DType::kF16}, std::pair{"model.layers.0.mlp.up_proj.weight", DType::kF32}}) {
    tensors[name] = toy::tensor(name, tensors[name].shape, dtype);
  }
  const Files files(tensors);
  Model model;
  ASSERT_EQ(toy::load(files, model), "");
  expect_rank(model, 1, 0);
  EXPECT_EQ(model.params().find(toy::kQkv + ".weight")->store->storage_dtype(), DType::kF32);
  EXPECT_EQ(model.params().find(toy::kGateUp + ".weight")->store->storage_dtype(), DType::kF32);
  EXPECT_EQ(model.params().find(toy::kDown + ".weight")->store->storage_dtype(), DType::kBF16);
}

TEST(Loader, DataOfAFileNeedNotBeAligned) {
  // One more blank in the header moves every tensor to an odd address.
  const fixture::TempFolder folder;
  std::string file = fixture::safetensors_file(toy::tensors());
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  file.insert(8 + length, " ");
  ++length;
  std::memcpy(file.data(), &length, sizeof(length));
  folder.write("model.safetensors", file);
  const Checkpoint checkpoint = std::move(Checkpoint::open(folder.path())).value();
  Model model;
  ThreadTeam team(1, 1);
  const LoadPlan plan = std::move(plan_load(checkpoint, model.params(), {})).value();
  ASSERT_TRUE(execute_load(plan, checkpoint, team, {}).ok());
  expect_rank(model, 1, 0);
}

/// One matrix of several tasks, fused of three parts that end inside panels.
class TallModel {
 public:
  static constexpr int64_t kRows = 12'000, kCols = 300;
  TallModel() : format_(make_plain_format({.model_dtype = DType::kF32}, kernels::table(Isa::kRef))) {
    const auto part = [](std::string name, int64_t rows) { return ParamPart{std::move(name), {ShardRule::kReplicate, rows, 1, nullptr}}; };
    weights_ =
        std::move(format_->create_weights(
                      {"w.abc", {part("a", 5'001), part("b", 17), part("c", kRows - 5'018)}, {ShardRule::kReplicate, kCols, 1, nullptr}},
                      params_))
            .value();
  }
  ParamList& params() { return params_; }
  std::vector<float> rows() const {
    std::vector<float> out(kRows * kCols);
    for (int64_t r = 0; r < kRows; ++r) weights_->row({&kernels::table(Isa::kRef), nullptr}, r, out.data() + r * kCols);
    return out;
  }

 private:
  std::unique_ptr<WeightFormat> format_;
  ParamList params_;
  std::unique_ptr<LinearWeights> weights_;
};

TEST(Loader, ThreadsDoNotChangeAByteAndProgressReachesTheEnd) {
  std::vector<float> values(TallModel::kRows * TallModel::kCols);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 65'521) - 3e4F;
  const Files files({{"w.abc.weight", fixture::f32_tensor({TallModel::kRows, TallModel::kCols}, values)}});
  for (const int threads : {1, 2, 3}) {
    TallModel model;
    const LoadPlan plan = std::move(plan_load(files.checkpoint(), model.params(), {})).value();
    ThreadTeam team(threads, threads);
    size_t last = 0;
    size_t goal = 0;
    const auto progress = [&](size_t done, size_t total) {
      EXPECT_GE(done, last);
      last = done;
      goal = total;
    };
    ASSERT_TRUE(execute_load(plan, files.checkpoint(), team, progress).ok());
    EXPECT_EQ(last, values.size() * sizeof(float));
    EXPECT_EQ(goal, last);
    EXPECT_TRUE(model.rows() == values) << threads << " threads";
  }
}

TEST(Loader, AFileThatShrankIsRefused) {
  const Files files(toy::tensors());
  Model model;
  const LoadPlan plan = std::move(plan_load(files.checkpoint(), model.params(), {})).value();
  const std::string path = files.folder().file("model.safetensors");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  ThreadTeam team(1, 1);
  const Status status = execute_load(plan, files.checkpoint(), team, {});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, testing::AllOf(HasSubstr(path), HasSubstr("changed while it was open")));
}

TEST(Loader, WeightsThatDoNotFitNameBothNumbers) {
  EXPECT_TRUE(check_weights_fit(10, 10).ok());
  EXPECT_EQ(check_weights_fit(11, 10).error().message, "the weights need 11 bytes of memory, 10 are available");
}

TEST(Loader, PlannedBytesAreThoseOfTheStores) {
  const Files files(toy::tensors(DType::kBF16));
  Model model(1, 0, DType::kBF16);
  const LoadPlan plan = std::move(plan_load(files.checkpoint(), model.params(), {})).value();
  const auto panels = [](int64_t rows, int64_t cols) { return static_cast<size_t>((rows + 31) / 32 * 32 * cols * 2); };
  EXPECT_EQ(plan.bytes, panels(320, 24) + panels(48, 24) + panels(24, 32) + panels(80, 24) + panels(24, 40) + 192 + 128);
}

TEST(Dummy, RanksHoldCutsOfTheSameModel) {
  ThreadTeam team(2, 2);
  Model whole;
  ASSERT_TRUE(execute_dummy(*plan_dummy(whole.params(), DType::kF32), team).ok());
  const std::vector<float> down = whole.matrix(toy::kDown);
  const std::vector<float> qkv = whole.matrix(toy::kQkv);
  const std::vector<float> bias = whole.values(toy::kQkv + ".bias");
  for (int rank = 0; rank < 8; ++rank) {
    Model part(8, rank, DType::kBF16);
    ASSERT_TRUE(execute_dummy(*plan_dummy(part.params(), DType::kBF16), team).ok());
    const std::vector<float> part_down = part.matrix(toy::kDown);
    for (int64_t r = 0; r < toy::kHidden; ++r) {
      for (int64_t c = 0; c < 5; ++c) {
        EXPECT_EQ(part_down[static_cast<size_t>(r * 5 + c)], down[static_cast<size_t>(r * toy::kInner + rank * 5 + c)]);
      }
    }
    const std::vector<float> part_qkv = part.matrix(toy::kQkv);
    EXPECT_TRUE(std::equal(part_qkv.begin(), part_qkv.begin() + 4 * toy::kHidden, qkv.begin() + rank * 4 * toy::kHidden));
    EXPECT_TRUE(std::equal(part_qkv.end() - 4 * toy::kHidden, part_qkv.end(), qkv.begin() + (40 + rank / 4 * 4) * toy::kHidden));
    EXPECT_EQ(part.values(toy::kQkv + ".bias")[0], bias[static_cast<size_t>(rank) * 4]);
  }
}

TEST(Dummy, ValuesHaveTheStatedMeanAndDeviation) {
  struct {
    const char* name;
    double mean;
  } const cases[] = {{"embed", 0.0}, {"norm", 1.0}, {"bias", 0.0}};
  ThreadTeam team(1, 1);
  Model model;
  ASSERT_TRUE(execute_dummy(*plan_dummy(model.params(), DType::kF32), team).ok());
  std::vector<float> embed = model.matrix(toy::kEmbed);
  embed.resize(toy::kVocab * toy::kHidden);
  const std::vector<float> values[] = {embed, model.values("model.norm.weight"), model.values(toy::kQkv + ".bias")};
  for (size_t i = 0; i < 3; ++i) {
    double sum = 0;
    double squares = 0;
    for (const float v : values[i]) sum += v, squares += (v - cases[i].mean) * (v - cases[i].mean);
    const auto n = static_cast<double>(values[i].size());
    EXPECT_NEAR(sum / n, cases[i].mean, 4 * 0.03 / std::sqrt(n)) << cases[i].name;
    EXPECT_NEAR(std::sqrt(squares / n), 0.0274, 0.06 / std::sqrt(n)) << cases[i].name;
  }
}

TEST(Dummy, NoTensorIsNeededAndTypesAreChecked) {
  Model model;
  EXPECT_THAT(plan_dummy(model.params(), DType::kI8).error().message, HasSubstr("type I8"));
}

}  // namespace
}  // namespace lamina
