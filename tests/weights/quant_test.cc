// Layers of codes: any layout, cut over any number of ranks, is the matrix that was published, and multiplies like it.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "checkpoint/quant_config.h"
#include "kernels/quantised.h"
#include "parallel/thread_communicator.h"
#include "tests/support/quant_writer.h"
#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

using fixture::QuantRecipe;
using Kind = QuantRecipe::Kind;

/// A fused layer of made-up codes: its tensors, and the matrices of its parts.
struct Layer {
  std::string name = "m.fused_proj";
  std::vector<ParamPart> parts;
  ShardDim cols;
  fixture::Tensors tensors;
  std::vector<std::vector<float>> values;  // [rows, cols] a part
};

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}
  int64_t upto(int64_t most) { return 1 + static_cast<int64_t>(random_() % static_cast<uint32_t>(most)); }
  float value() { return static_cast<float>(random_() % 4001) / 1000.0F - 2.0F; }

 private:
  std::mt19937 random_;
};

Layer make_layer(const QuantRecipe& recipe, Random& random, int ranks, bool by_rows) {
  static constexpr const char* kModules[] = {"a_proj", "b_proj", "c_proj"};
  const int64_t grain = recipe.kind == Kind::kAwq ? 8 : 1;  // outputs a word of AWQ holds
  Layer out;
  out.cols = by_rows ? ShardDim{ShardRule::kReplicate, random.upto(90), 1} : ShardDim{ShardRule::kSplit, ranks * random.upto(40), 1};
  const int64_t parts = random.upto(3);
  for (int64_t p = 0; p < parts; ++p) {
    ShardDim rows{ShardRule::kReplicate, grain * random.upto(40 / grain), 1};
    if (by_rows && p == 0) rows = {ShardRule::kHeads, grain * ranks * random.upto(2), random.upto(5)};
    if (by_rows && p > 0) rows = {ShardRule::kKvHeads, ranks % 2 == 0 ? ranks / 2 : ranks, grain * random.upto(5)};
    const std::string module = parts == 1 ? "" : kModules[p];
    out.parts.push_back({module, rows});
    const int64_t n = rows.on_disk().value, k = out.cols.on_disk().value;
    fixture::QuantLayer layer = fixture::quant_layer(recipe, module.empty() ? out.name : "m." + module, n, k);
    out.tensors.merge(layer.tensors);
    out.values.push_back(std::move(layer.values));
  }
  return out;
}

/// One rank's share of a layer.
struct Shard {
  ParamList params;
  std::unique_ptr<WeightFormat> format;
  std::unique_ptr<LinearWeights> weights;
  std::vector<float> values;  // what it should hold, [rows, cols]
  int64_t rows = 0, cols = 0;
};

struct Setting {
  DType dtype = DType::kF32;
  bool act_quant = false;
  Isa isa = Isa::kRef;
};

std::unique_ptr<Shard> load_shard(const Layer& layer, const QuantConfig& config, const toy::Files& files, const ParallelGroup& group,
                                  const Setting& setting) {
  auto out = std::make_unique<Shard>();
  const auto on_group = [&](ShardDim dim) {
    if (dim.rule != ShardRule::kReplicate) dim.group = &group;
    return dim;
  };
  LinearShape shape{layer.name, layer.parts, on_group(layer.cols)};
  for (ParamPart& part : shape.parts) part.rows = on_group(part.rows);
  out->format = make_quantised_format(config, {.model_dtype = setting.dtype, .act_quant = setting.act_quant, .holds = nullptr},
                                      kernels::table(setting.isa));
  auto weights = out->format->create_weights(shape, out->params);
  EXPECT_TRUE(weights.ok()) << weights.error().message;
  out->weights = std::move(*weights);
  const Result<LoadPlan> plan = plan_load(files.checkpoint(), out->params, {});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  ThreadTeam team(2, 2);
  const Status done = execute_load(*plan, files.checkpoint(), team, {});
  EXPECT_TRUE(done.ok()) << done.error().message;

  const ShardCut cols = cut(shape.cols, layer.name).value();
  out->cols = cols.count;
  for (size_t p = 0; p < shape.parts.size(); ++p) {
    const ShardCut rows = cut(shape.parts[p].rows, layer.name).value();
    for (int64_t r = rows.begin; r < rows.begin + rows.count; ++r) {
      const float* row = layer.values[p].data() + r * shape.cols.on_disk().value + cols.begin;
      out->values.insert(out->values.end(), row, row + cols.count);
    }
    out->rows += rows.count;
  }
  return out;
}

QuantConfig config_of(const QuantRecipe& recipe) {
  return parse_quant_config(fixture::quant_config(recipe), "config.json", "quantization_config.").value();
}

QuantConfig with_inputs(QuantRecipe recipe) {
  if (recipe.kind == Kind::kFp8Channel) recipe.inputs = "float";
  if (recipe.kind == Kind::kInt8) recipe.inputs = "int";
  return config_of(recipe);
}

class QuantLayers : public testing::TestWithParam<QuantRecipe> {};

TEST_P(QuantLayers, CutOverRanksHoldTheirRowsAndColumnsOfTheMatrix) {
  const QuantConfig config = config_of(GetParam());
  for (uint32_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const int ranks = 1 + static_cast<int>(seed % 5);
    const Layer layer = make_layer(GetParam(), random, ranks, seed % 2 == 0);
    const toy::Files files(layer.tensors);
    for (int rank = 0; rank < ranks; ++rank) {
      const ParallelGroup group{.name = "tp", .size_flag = "--tp-size", .size = ranks, .rank = rank};
      const auto shard = load_shard(layer, config, files, group, {});
      const Compute compute{.kernels = &kernels::table(Isa::kRef), .team = nullptr};
      std::vector<float> row(static_cast<size_t>(shard->cols));
      for (int64_t r = 0; r < shard->rows; ++r) {
        shard->weights->row(compute, r, row.data());
        for (int64_t c = 0; c < shard->cols; ++c) {
          const float wanted = shard->values[static_cast<size_t>(r * shard->cols + c)];
          ASSERT_NEAR(row[static_cast<size_t>(c)], wanted, 1e-6 * std::abs(wanted))
              << "seed " << seed << " rank " << rank << " row " << r << " column " << c;
        }
      }
    }
  }
}

TEST_P(QuantLayers, MadeUpOnesPassTheChecksOfReadOnes) {
  for (const bool v2 : {false, true}) {
    QuantRecipe recipe = GetParam();
    recipe.v2 = v2;
    const QuantConfig config = config_of(recipe);
    ParamList params;
    const auto format =
        make_quantised_format(config, {.model_dtype = DType::kF32, .act_quant = false, .holds = nullptr}, kernels::table(Isa::kRef));
    const LinearShape shape{"m.proj", {{"", {ShardRule::kReplicate, 72, 1}}}, {ShardRule::kReplicate, 96, 1}};
    ASSERT_TRUE(format->create_weights(shape, params).ok());
    ThreadTeam team(2, 2);
    const Status done = execute_dummy(*plan_dummy(params, DType::kBF16), team);
    EXPECT_TRUE(done.ok()) << done.error().message;
  }
}

std::vector<Isa> paths() { return supported_isas(decode_features(read_cpuid())); }

TEST_P(QuantLayers, MultiplyLikeTheMatrix) {
  const QuantConfig config = config_of(GetParam());
  const ParallelGroup alone{.name = "tp", .size_flag = "--tp-size", .size = 1, .rank = 0};
  for (const Isa isa : paths()) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
      Random random(seed);
      const Layer layer = make_layer(GetParam(), random, 1, true);
      const toy::Files files(layer.tensors);
      const auto shard = load_shard(layer, config, files, alone, {.isa = isa});
      const int64_t m = random.upto(5);
      std::vector<float> x(static_cast<size_t>(m * shard->cols)), out(static_cast<size_t>(m * shard->rows));
      for (float& v : x) v = random.value();
      ThreadTeam team(2, 2);
      shard->weights->matmul({.kernels = &kernels::table(isa), .team = &team}, ConstF32View(x.data(), m, shard->cols), nullptr,
                             F32View(out.data(), m, shard->rows));
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t r = 0; r < shard->rows; ++r) {
          double sum = 0, size = 0;
          for (int64_t c = 0; c < shard->cols; ++c) {
            const double term =
                double{x[static_cast<size_t>(i * shard->cols + c)]} * shard->values[static_cast<size_t>(r * shard->cols + c)];
            sum += term, size += std::abs(term);
          }
          // gamma_n of Higham 2002, with a factor for zero points, which are subtracted from codes and not from products
          const double bound = static_cast<double>(shard->cols + 8) * 0x1p-24 * size * 16 + 1e-30;
          ASSERT_NEAR(out[static_cast<size_t>(i * shard->rows + r)], sum, bound) << "seed " << seed;
        }
      }
    }
  }
}

/// A row-parallel layer over ranks of one process: the sum of what they give.
std::vector<float> parallel_sum(const Layer& layer, const QuantConfig& config, const toy::Files& files, int ranks,
                                const std::vector<float>& x, int64_t m) {
  RankFault fault;
  auto communicators = make_thread_communicators(ranks, fault);
  std::vector<std::vector<float>> parts(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const ParallelGroup group{.name = "tp",
                                .size_flag = "--tp-size",
                                .size = ranks,
                                .rank = rank,
                                .communicator = communicators[static_cast<size_t>(rank)].get()};
      const auto shard = load_shard(layer, config, files, group, {.act_quant = true});
      ThreadTeam team(1, 1);
      std::vector<float>& out = parts[static_cast<size_t>(rank)];
      out.resize(static_cast<size_t>(m * shard->rows));
      const ConstF32View whole(x.data(), m, layer.cols.on_disk().value);
      const ShardDim dim{layer.cols.rule, layer.cols.units, layer.cols.unit, &group};
      shard->weights->matmul({.kernels = &kernels::table(Isa::kRef), .team = &team}, whole.columns(cut(dim, "x")->begin, shard->cols),
                             nullptr, F32View(out.data(), m, shard->rows));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t rank = 1; rank < parts.size(); ++rank)
    for (size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[rank][i];
  return parts[0];
}

TEST_P(QuantLayers, OverRanksRoundInputsAsOneRankDoes) {
  const QuantConfig config = with_inputs(GetParam());
  for (uint32_t seed = 0; seed < 6; ++seed) {
    Random random(seed);
    const int ranks = 2 + static_cast<int>(seed % 3);
    const Layer layer = make_layer(GetParam(), random, ranks, false);
    const toy::Files files(layer.tensors);
    const int64_t m = random.upto(4), k = layer.cols.on_disk().value;
    std::vector<float> x(static_cast<size_t>(m * k));
    for (float& v : x) v = random.value();
    x[static_cast<size_t>(k - 1)] = 50.0F;  // the last rank's part has the row's maximum
    const std::vector<float> whole = parallel_sum(layer, config, files, 1, x, m), sum = parallel_sum(layer, config, files, ranks, x, m);
    ASSERT_EQ(whole.size(), sum.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      // Products of the same rounded inputs: only the order of additions differs.
      EXPECT_NEAR(sum[i], whole[i], static_cast<double>(k + 8) * 0x1p-24 * 200) << "seed " << seed;
    }
  }
}

/// A layer of two parts with inputs cut over two ranks or not, loaded on the first.
std::optional<InputCodes> codes_of(const QuantRecipe& recipe, bool act_quant, bool is_cut, std::pair<float, float> input_scales) {
  static const ParallelGroup group{.name = "tp", .size_flag = "--tp-size", .size = 2, .rank = 0};
  Layer layer;
  layer.cols = is_cut ? ShardDim{ShardRule::kSplit, 64, 1} : ShardDim{ShardRule::kReplicate, 64, 1};
  for (const std::string part : {"a_proj", "b_proj"}) {
    layer.parts.push_back({part, {ShardRule::kReplicate, 16, 1}});
    fixture::QuantLayer made = fixture::quant_layer(recipe, "m." + part, 16, 64);
    layer.tensors.merge(made.tensors);
    layer.values.push_back(std::move(made.values));
    const std::string scale = "m." + part + ".input_scale";
    if (layer.tensors.contains(scale)) {
      layer.tensors[scale] = fixture::f32_tensor({1}, std::vector<float>{part == "a_proj" ? input_scales.first : input_scales.second});
    }
  }
  const toy::Files files(layer.tensors);
  const auto shard = load_shard(layer, with_inputs(recipe), files, group, {.act_quant = act_quant});
  std::optional<InputCodes> out = shard->weights->input_codes();
  if (out && out->scale != nullptr) {
    EXPECT_EQ(*out->scale, input_scales.first);
  }
  return out;
}

TEST(InputCodes, AreSaidWhereOnePassOverTheInputServesTheWholeLayer) {
  const QuantRecipe fp8_static{.kind = Kind::kFp8Static}, fp8{.kind = Kind::kFp8}, int8{.kind = Kind::kInt8},
      w4a8{.kind = Kind::kPacked, .inputs = "int"};
  for (const bool is_cut : {false, true}) {
    const auto stat = codes_of(fp8_static, true, is_cut, {0.5F, 0.5F});
    ASSERT_TRUE(stat && stat->scale != nullptr);
    EXPECT_EQ(stat->codes, DType::kBF16);
    EXPECT_FALSE(codes_of(fp8_static, true, is_cut, {0.5F, 0.25F})) << "parts with scales of their own";
    for (const QuantRecipe& recipe : {fp8, int8, w4a8}) {
      const auto codes = codes_of(recipe, true, is_cut, {});
      ASSERT_EQ(codes.has_value(), !is_cut) << "the scale of a row is that of all ranks";
      if (!codes) continue;
      EXPECT_EQ(codes->scale, nullptr);
      EXPECT_EQ(codes->codes, recipe.kind == Kind::kFp8 ? DType::kBF16 : DType::kU8);
    }
  }
  for (const QuantRecipe& recipe : {fp8_static, fp8, int8, w4a8})
    EXPECT_FALSE(codes_of(recipe, false, false, {0.5F, 0.5F})) << "--act-quant off";
  EXPECT_FALSE(codes_of({.kind = Kind::kFp8Block}, true, false, {})) << "a scale a block";
  EXPECT_FALSE(codes_of({.kind = Kind::kMxfp8}, true, false, {})) << "powers of two";
  EXPECT_FALSE(codes_of({.kind = Kind::kGptq, .act_order = true}, true, false, {})) << "plain inputs";
}

TEST(InputCodes, AreMultipliedLikeTheInputTheyCameFrom) {
  const ParallelGroup alone{.name = "tp", .size_flag = "--tp-size", .size = 1, .rank = 0};
  ThreadTeam team(2, 2);
  for (const QuantRecipe& recipe : {QuantRecipe{.kind = Kind::kFp8Static}, QuantRecipe{.kind = Kind::kFp8},
                                    QuantRecipe{.kind = Kind::kInt8}, QuantRecipe{.kind = Kind::kPacked, .inputs = "int"}}) {
    for (const Isa isa : paths()) {
      Random random(7);
      const Layer layer = make_layer(recipe, random, 1, true);
      const toy::Files files(layer.tensors);
      const auto shard = load_shard(layer, with_inputs(recipe), files, alone, {.act_quant = true, .isa = isa});
      const kernels::Kernels& kernels = kernels::table(isa);
      const InputCodes rule = shard->weights->input_codes().value();
      const int64_t m = isa == Isa::kRef ? 5 : 600, k = shard->cols;  // 600: more than an input is quantised at a time
      std::vector<float> x(static_cast<size_t>(m * k)), scales(static_cast<size_t>(m), rule.scale != nullptr ? *rule.scale : 0);
      for (float& v : x) v = random.value();
      const std::vector<int32_t> whole = {static_cast<int32_t>(k)};
      std::vector<uint16_t> memory(x.size());
      MutableActivation codes;
      codes.dtype = rule.codes, codes.data = memory.data(), codes.rows = m, codes.cols = codes.stride = k;
      codes.scales = F32View(scales.data(), m, 1);
      const ConstF32View plain(x.data(), m, k);
      if (rule.scale == nullptr) {
        kernels.quantised->run_maxima(plain, whole, codes.scales);
        kernels::scales_of_maxima(rule.codes, codes.scales);
      }
      kernels.quantised->quantise(plain, whole, codes.scales, codes);
      const Compute compute{.kernels = &kernels, .team = &team};
      std::vector<float> got(static_cast<size_t>(m * shard->rows)), wanted(got.size()), bias(static_cast<size_t>(shard->rows), 0.5F);
      shard->weights->matmul(compute, plain, bias.data(), F32View(wanted.data(), m, shard->rows));
      shard->weights->matmul(compute, codes.view(), bias.data(), F32View(got.data(), m, shard->rows));
      EXPECT_EQ(got, wanted) << recipe.name();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, QuantLayers, testing::ValuesIn(fixture::all_recipes()),
                         [](const auto& recipe) { return recipe.param.name(); });

}  // namespace
}  // namespace lamina
