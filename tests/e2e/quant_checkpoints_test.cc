// Damaged and odd quantised checkpoints: each gives the logits of its dequantised twin, or is refused by the name of what is wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/e2e/quant_rows.h"
#include "tests/e2e/toy_run.h"

namespace lamina::e2e {
namespace {

using fixture::QuantRecipe;
using fixture::QuantToy;
using fixture::TempFolder;
using fixture::Tensor;
using fixture::ToyShape;
using Kind = QuantRecipe::Kind;
using Strings = std::vector<std::string>;

const std::string kDown = "model.layers.1.mlp.down_proj", kQ = "model.layers.0.self_attn.q_proj", kOut = "model.layers.0.self_attn.o_proj";
const std::string kConfig = "quantization_config";
const Strings kServed = {};

constexpr QuantRecipe kGptq{.kind = Kind::kGptq};
constexpr QuantRecipe kGptqV2{.kind = Kind::kGptq, .v2 = true};
constexpr QuantRecipe kGptqActOrder{.kind = Kind::kGptq, .symmetric = false, .act_order = true};
constexpr QuantRecipe kAwq{.kind = Kind::kAwq, .symmetric = false};
constexpr QuantRecipe kFp8{.kind = Kind::kFp8};
constexpr QuantRecipe kFp8Static{.kind = Kind::kFp8Static};
constexpr QuantRecipe kFp8Block{.kind = Kind::kFp8Block, .group = 16};
constexpr QuantRecipe kPacked{.kind = Kind::kPacked};
constexpr QuantRecipe kPackedAsym{.kind = Kind::kPacked, .symmetric = false};
constexpr QuantRecipe kInt8{.kind = Kind::kInt8};
constexpr QuantRecipe kMxfp4{.kind = Kind::kMxfp4};
constexpr QuantRecipe kNvfp4{.kind = Kind::kNvfp4};

const float kNan = std::nanf(""), kInf = HUGE_VALF;
const Tensor kOne = fixture::f32_tensor({1}, std::vector<float>{1});

class QuantCheckpoint : public ::testing::TestWithParam<QuantRow> {};

TEST_P(QuantCheckpoint, GivesTheLogitsOfItsMatricesOrIsRefusedByName) {
  const QuantRow& row = GetParam();
  QuantToy toy = fixture::quant_toy(row.recipe, row.shape);
  row.change(toy);
  const TempFolder folder;
  toy.model.write(folder);
  EngineOptions options = toy_options(folder);
  options.act_quant = "off";
  options.topology.tp_size = row.tp;
  options.topology.pp_size = row.pp;
  options.threads = row.tp * row.pp;
  const std::vector<TokenId> prompt = fixture::toy_prompt(20);
  const Served served = serve(options, prompt);
  EXPECT_EQ(served.log.find("warning"), std::string::npos) << served.log;
  if (row.wanted.empty()) return expect_oracle(served, fixture::toy_oracle(row.shape), toy.dequantised, prompt);
  ASSERT_NE(served.refusal, "") << "was served";
  for (const std::string& piece : row.wanted) EXPECT_THAT(served.refusal, ::testing::HasSubstr(piece));
}

std::vector<QuantRow> recipes() {
  std::vector<QuantRow> out;
  for (const QuantRecipe& recipe : fixture::all_recipes()) out.push_back({.name = recipe.name(), .recipe = recipe, .wanted = kServed});
  return out;
}

std::vector<QuantRow> gptq() {
  const std::vector<uint32_t> zeros(64, 0);
  std::vector<uint32_t> backwards, beyond(64, 0), negative(64, 0);
  for (uint32_t i = 0; i < 64; ++i) backwards.push_back(i < 32 ? 1 : 0);
  beyond[5] = 2, negative[5] = 0xFFFFFFFFU;
  return {
      {"A25V2ZerosUnderV1Label", kGptqV2, {".qzeros", "zero point 9", "checkpoint_format"}, with("checkpoint_format", Json("gptq"))},
      {"A25V1ZerosUnderV2Label", kGptq, {".qzeros", "zero point 7", "checkpoint_format"}, with("checkpoint_format", Json("gptq_v2"))},
      {"A27IndexOfZeros", kGptq, kServed, index(kQ + ".g_idx", zeros)},
      {"A27IndexOfZerosWithDescAct", kGptq, kServed, all({index(kQ + ".g_idx", zeros), with("desc_act", Json(true))})},
      {"IndicesMissing", kGptq, kServed, drop_leaf("g_idx")},
      {"IndexOfOnePartMissing", kGptq, {"missing", kQ + ".g_idx"}, drop(kQ + ".g_idx")},
      {"IndexMissingWithDescAct", kGptqActOrder, {kQ + ".g_idx", "missing"}, drop(kQ + ".g_idx")},
      {"IndexBeyondTheGroups", kGptqActOrder, {kQ + ".g_idx", "group 2 of input 5", "0 to 1"}, index(kQ + ".g_idx", beyond)},
      {"IndexNegative", kGptqActOrder, {kQ + ".g_idx", "group -1 of input 5"}, index(kQ + ".g_idx", negative)},
      {"IndexOutOfOrder", kGptq, {kQ + ".g_idx", "desc_act"}, index(kQ + ".g_idx", backwards)},
      {"IndexTooShort", kGptq, {kQ + ".g_idx", "[3]", "[64]"}, index(kQ + ".g_idx", {0, 0, 1})},
      {"A29ZerosUnpacked",
       kGptq,
       {kQ + ".qzeros", "[2, 64]", "[2, 8]"},
       add(kQ + ".qzeros", fixture::make_tensor(DType::kF16, {2, 64}, std::vector<float>(128, 8)))},
      {"ZerosMissing", kGptq, {"missing", kQ + ".qzeros"}, drop(kQ + ".qzeros")},
      {"ScalesMissing", kGptq, {"missing", kQ + ".scales"}, drop(kQ + ".scales")},
      {"ScaleNan", kGptq, {kDown + ".scales", "nan"}, first_value(kDown + ".scales", kNan)},
      {"ScaleInfinite", kGptq, {kDown + ".scales", "inf"}, first_value(kDown + ".scales", kInf)},
      {"BitsOfAnotherFile", kGptq, {"down_proj.qweight", "[16, 64]", "[32, 64]"}, with("bits", Json(8))},
      {"CodesAreFloats", kGptq, {kQ + ".qweight", "type F32", "I32"}, add(kQ + ".qweight", fixture::constant_tensor({8, 64}, 1))},
      {"A17MisspeltModule",
       kGptq,
       {"model.layers.1.mlp.down_prj.qweight", kDown + ".qweight"},
       move(kDown + ".qweight", "model.layers.1.mlp.down_prj.qweight")},
      {"StrayWeight", kGptq, {"unexpected", kDown + ".weight"}, add(kDown + ".weight", fixture::constant_tensor({64, 128}, 1))},
      {"BiasesOfZeros", kGptq, kServed, zero_biases()},
      {"ABiasThatIsNotZero", kGptq, {kDown + ".bias"}, all({zero_biases(), add(kDown + ".bias", fixture::constant_tensor({64}, 1))})},
      {"A19RealBiases", kGptqActOrder, kServed, all({}), {.qkv_bias = true, .o_bias = true, .mlp_bias = true}},
      {"FiveBits", kGptq, {"quantization_config.bits", "5", "2, 3, 4, 8"}, with("bits", Json(5))},
      {"GroupOfNothing", kGptq, {"group_size", "0"}, with("group_size", Json(0))},
      {"GroupMissing", kGptq, {"group_size"}, with("group_size", Json(nullptr))},
      {"GroupWiderThanTheInputs", {.kind = Kind::kGptq, .group = 4096}, kServed},
      {"GroupThatDoesNotDivide", {.kind = Kind::kGptq, .group = 48}, kServed},
      {"GroupCutByRanks", {.kind = Kind::kGptq, .group = 48, .act_order = true}, kServed, all({}), {}, 2},
      {"ZeroPointOutOfAByte",
       {.kind = Kind::kGptq, .bits = 8, .symmetric = false},
       {kQ + ".qzeros", "zero point 256"},
       first_byte(kQ + ".qzeros", 0xFF)},
      {"FusedOnDisk", kGptq, kServed, fused(kGptq)},
      {"FusedOnDiskActOrder", kGptqActOrder, kServed, fused(kGptqActOrder), {}, 2},
  };
}

std::vector<QuantRow> gptq_heads_and_patterns() {
  return {
      {"HeadSaid", kGptq, kServed, all({quantised(kGptq, "lm_head"), with("lm_head", Json(true))}), {.vocab = 264}},
      {"TiedHeadIsGptq",
       kGptq,
       {"unexpected 4", "lm_head.qweight", "lm_head.scales"},
       added(kGptq, "lm_head", 264, 64),
       {.vocab = 264, .tied = true}},
      {"HeadNotSaid", kGptq, kServed, quantised(kGptq, "lm_head"), {.vocab = 264}},
      {"DynamicLeavesOut", kGptq, kServed, all({plain("down_proj"), with_json("dynamic", R"({"-:.*down_proj": {}})")})},
      {"DynamicOtherBits", kGptq, kServed,
       all({quantised({.kind = Kind::kGptq, .bits = 8}, "model.layers.0.mlp.down_proj"), quantised({.kind = Kind::kGptq, .bits = 8}, kDown),
            with_json("dynamic", R"({"+:.*down_proj": {"bits": 8}})")})},
      {"DynamicOfEverything", kGptq, kServed, with_json("dynamic", R"({"+:.*": {"bits": 4}})")},
      {"DynamicOfEverythingWithAHead",
       kGptq,
       kServed,
       all({quantised(kGptq, "lm_head"), with_json("dynamic", R"({".*": {"bits": 4}})")}),
       {.vocab = 264}},
  };
}

std::vector<QuantRow> awq() {
  const QuantRecipe zero{.kind = Kind::kAwq, .symmetric = false, .zero = 0};
  return {
      {"AwqZeroPointZero", zero, kServed},
      {"AwqGemv", kAwq, {"version", "gemv", "gemm"}, with("version", Json("gemv"))},
      {"AwqEightBits", kAwq, {"bits", "8"}, with("bits", Json(8))},
      {"AwqNoZeroPoint", kAwq, {"zero_point"}, with("zero_point", Json(false))},
      {"AwqMlpLeftPlain", kAwq, kServed, all({plain(".mlp."), with_json("modules_to_not_convert", R"(["mlp"])")})},
      {"AwqHalfOfTheFusedSet",
       kAwq,
       {"qkv_proj", "q_proj is plain", "k_proj is awq 4 bit"},
       all({plain("self_attn.q_proj"), with_json("modules_to_not_convert", R"(["self_attn.q_proj"])")})},
      {"AwqCodesTheOtherWay", kAwq, {kQ + ".qweight", "[8, 64]", "[64, 8]"}, reshape(kQ + ".qweight", {8, 64})},
      {"AwqFusedOnDisk", kAwq, kServed, fused(kAwq), {}, 2},
      {"AwqHeadInTheFile", kAwq, kServed, quantised(kAwq, "lm_head"), {.vocab = 264}},
  };
}

std::vector<QuantRow> fp8() {
  const std::string scale = kOut + ".weight_scale";
  return {
      {"Fp8ScalarScale", kFp8, kServed, reshape(scale, {})},
      {"Fp8OtherNames", kFp8Static, kServed,
       all({move_leaf("weight_scale", "weight_scale_inv"), move_leaf("input_scale", "activation_scale")})},
      {"Fp8ScaleTwice", kFp8, {"duplicate", kOut + ".weight_scale_inv"}, add(kOut + ".weight_scale_inv", kOne)},
      {"Fp8ScaleMissing", kFp8, {"missing", scale}, drop(scale)},
      {"Fp8ScaleNan", kFp8, {scale, "nan"}, scalar(scale, kNan)},
      {"Fp8ScaleInfinite", kFp8, {scale, "inf"}, scalar(scale, kInf)},
      {"Fp8ScaleNegative", kFp8, {scale, "-1"}, scalar(scale, -1)},
      {"Fp8ScaleOfManyElements", kFp8, {scale, "[2]", "[1]"}, add(scale, fixture::constant_tensor({2}, 1))},
      {"Fp8InputScaleMissing", kFp8Static, {"missing", kQ + ".input_scale"}, drop(kQ + ".input_scale")},
      {"Fp8InputScaleZero", kFp8Static, {kQ + ".input_scale", "scale 0"}, scalar(kQ + ".input_scale", 0)},
      {"Fp8InputScaleNan", kFp8Static, {kQ + ".input_scale", "nan"}, scalar(kQ + ".input_scale", kNan)},
      {"Fp8StrayInputScale", kFp8, {"unexpected", kQ + ".input_scale"}, scalar(kQ + ".input_scale", 1)},
      {"Fp8WithoutConfig", kFp8, {"unexpected", ".weight_scale"}, [](QuantToy& t) { t.model.drop(kConfig); }},
      {"Fp8NanCode", kFp8, {kQ + ".weight", "NaN"}, first_byte(kQ + ".weight", 0x7F)},
      {"Fp8PlainWeight", kFp8, {kQ + ".weight", "type F32", "F8_E4M3"}, add(kQ + ".weight", fixture::constant_tensor({64, 64}, 1))},
  };
}

std::vector<QuantRow> fp8_heads_and_blocks() {
  const std::string head = "lm_head", embedding = "model.embed_tokens";
  const QuantRecipe channel{.kind = Kind::kFp8Channel};
  return {
      {"A35HeadInTheFile", kFp8, kServed, quantised(kFp8, head)},
      {"A35HeadWithoutItsScale", kFp8, {"lm_head.weight", "F8_E4M3"}, all({quantised(kFp8, head), drop("lm_head.weight_scale")})},
      {"A35HeadIgnoredButQuantised",
       kFp8,
       {"unexpected", "lm_head.weight_scale"},
       all({quantised(kFp8, head), with_json("ignored_layers", R"(["lm_head"])")})},
      {"QuantisedEmbedding", channel, kServed, quantised(channel, embedding)},
      {"QuantisedTiedEmbedding", channel, kServed, quantised(channel, embedding), {.tied = true}},
      {"TiedHeadRepeatsTheQuantisedEmbedding",
       channel,
       kServed,
       all({quantised(channel, embedding), copied(embedding, head)}),
       {.tied = true}},
      {"TiedHeadHasOtherScales",
       channel,
       {"lm_head.weight_scale differs from model.embed_tokens.weight_scale"},
       all({quantised(channel, embedding), copied(embedding, head), first_value("lm_head.weight_scale", 0.5F)}),
       {.tied = true}},
      {"TiedHeadIsQuantisedAlone", kFp8, {"unexpected 1 (lm_head.weight_scale)"}, added(kFp8, head, 264, 64), {.tied = true}},
      {"QuantisedTiedEmbeddingOnTwoRanks", channel, kServed, quantised(channel, embedding), {.tied = true}, 2},
      {"A37OddBlocks", kFp8Block, kServed, all({}), {.inner = 40}},
      {"A37OddBlocksOnTwoRanks", kFp8Block, kServed, all({}), {.inner = 40}, 2},
      {"A37OddBlocksOnFourRanks", kFp8Block, kServed, all({}), {.inner = 40}, 4},
      {"BlockScalesRoundedDown",
       kFp8Block,
       {"down_proj.weight_scale_inv", "[4, 2]", "[4, 3]"},
       [](QuantToy& t) {
         Tensor& scales = t.model.tensors.at(kDown + ".weight_scale_inv");
         scales.shape = {4, 2}, scales.bytes.resize(32);
       },
       {.inner = 40}},
      {"BlockScalesByThePlainName", kFp8Block, kServed, move_leaf("weight_scale_inv", "weight_scale")},
      {"ActivationSchemeUnknown",
       kFp8,
       {"activation_scheme", "sometimes", "static, dynamic"},
       with("activation_scheme", Json("sometimes"))},
      {"StaticBlocks", kFp8Block, {"activation_scheme", "static"}, with("activation_scheme", Json("static"))},
      {"BlockOfOneSize", kFp8Block, {"weight_block_size", "[16]"}, with_json("weight_block_size", R"([16])")},
      {"BlockOfNothing", kFp8Block, {"weight_block_size", "[0,16]"}, with_json("weight_block_size", R"([0, 16])")},
      {"IgnoredLayer", kFp8, kServed, all({plain("layers.0.mlp"), with_json("ignored_layers", R"(["model.layers.0.mlp"])")})},
      {"IgnoredWithoutPrefix", kFp8, kServed, all({plain("layers.0.mlp"), with_json("ignored_layers", R"(["layers.0.mlp"])")})},
      {"Fp8FusedOnDisk", channel, kServed, fused(channel), {}, 2},
      {"Fp8BlocksFusedOnDisk", kFp8Block, kServed, fused(kFp8Block), {}, 2},
      {"A39LayersBeyondTheLast", kFp8, {"unexpected", "model.layers.2."}, added(kFp8, "model.layers.2.mlp.up_proj", 128, 64)},
  };
}

/// Attention in 8 bits by a group of its own, the rest in 4.
Change two_groups() {
  const QuantRecipe bits8{.kind = Kind::kPacked, .bits = 8, .group = 0};
  Json groups = *fixture::quant_config(kPacked).find("config_groups");
  Json attention = *fixture::quant_config(bits8).find("config_groups")->find("group_0");
  attention.set("targets", Json(Json::Array{Json("re:.*self_attn.*")}));
  groups.set("group_1", attention);
  std::vector<Change> changes = {with("config_groups", groups)};
  for (const char* layer : {"0", "1"}) {
    for (const char* module : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      changes.push_back(quantised(bits8, cat("model.layers.", layer, ".self_attn.", module)));
    }
  }
  return all(changes);
}

std::vector<QuantRow> compressed() {
  return {
      {"A31IgnoreByPattern", kPacked, kServed, all({plain("self_attn"), with_json("ignore", R"(["re:.*self_attn.*", "lm_head"])")})},
      {"A31HalfIgnored",
       kPacked,
       {"layers.0.self_attn.qkv_proj", "q_proj is plain", "k_proj is pack-quantized"},
       all({plain("layers.0.self_attn.q_proj"), with_json("ignore", R"(["model.layers.0.self_attn.q_proj", "lm_head"])")})},
      {"PatternThatIsNone", kPacked, {"regular expression", "((("}, with_json("ignore", R"(["re:((("])")},
      {"PatternOfTheFirstGroupOnly", kPacked, kServed, two_groups()},
      {"ShapeSaysOtherwise",
       kPacked,
       {kQ + ".weight_shape", "[64, 0]"},
       [](QuantToy& t) { t.model.tensors.at(kQ + ".weight_shape").bytes[8] = 0; }},
      {"ShapesMissing", kPacked, kServed, drop_leaf("weight_shape")},
      {"FormatUnknown", kPacked, {"marlin-24", "supported"}, with("format", Json("marlin-24"))},
      {"Sparse", kPacked, {"sparsity_config", "sparse-24-bitmask"}, with_json("sparsity_config", R"({"format": "sparse-24-bitmask"})")},
      {"ThreeBits", kPacked, {"num_bits", "3"}, with_weights("num_bits", Json(3))},
      {"StrategyUnknown", kPacked, {"strategy", "vector"}, with_weights("strategy", Json("vector"))},
      {"Int8WithZeroPoints", kInt8, {"symmetric", "int8"}, with_weights("symmetric", Json(false))},
      {"ZeroPointMissing", kPackedAsym, {"missing", kQ + ".weight_zero_point"}, drop(kQ + ".weight_zero_point")},
      {"ZeroPointStray", kPackedAsym, {"unexpected", ".weight_zero_point"}, with_weights("symmetric", Json(true))},
      {"ScaleNanInBf16", kPacked, {kQ + ".weight_scale", "nan"}, first_value(kQ + ".weight_scale", kNan)},
      {"GroupsOfAnotherFile", kPacked, {".weight_scale", "[64, 2]", "[64, 4]"}, with_weights("group_size", Json(16))},
      {"Int8ScaleTransposed", kInt8, {kQ + ".weight_scale", "[1, 64]", "[64, 1]"}, reshape(kQ + ".weight_scale", {1, 64})},
      {"Int8ScaleAsAVector", kInt8, kServed, reshape(kQ + ".weight_scale", {64})},
      {"MxScaleNan", kMxfp4, {kQ + ".weight_scale", "nan"}, first_byte(kQ + ".weight_scale", 0xFF)},
      {"MxScalesOfTheirOwnType", kMxfp4, kServed, retype("weight_scale", "F8_E8M0")},
      {"Mx8ScalesOfTheirOwnType", {.kind = Kind::kMxfp8}, kServed, retype("weight_scale_inv", "F8_E8M0")},
      {"Mx8ScalesOfTheirOwnTypeInOnePart", {.kind = Kind::kMxfp8}, kServed, retype("k_proj.weight_scale_inv", "F8_E8M0")},
      {"MxScalesAreFloats",
       kMxfp4,
       {kQ + ".weight_scale", "type F32", "U8"},
       add(kQ + ".weight_scale", fixture::constant_tensor({64, 2}, 1))},
      {"Nvfp4GlobalScaleZero", kNvfp4, {kQ + ".weight_global_scale", "scale 0"}, scalar(kQ + ".weight_global_scale", 0)},
      {"Nvfp4GlobalScaleOfTwo",
       kNvfp4,
       {kQ + ".weight_global_scale", "[2]"},
       add(kQ + ".weight_global_scale", fixture::constant_tensor({2}, 1))},
      {"Nvfp4GlobalScaleMissing", kNvfp4, {"missing", kQ + ".weight_global_scale"}, drop(kQ + ".weight_global_scale")},
      {"OutputActivations",
       kPacked,
       {"output_activations"},
       with_group("output_activations", parse_json(R"({"num_bits": 8})", "row").value())},
      {"NoGroups", kPacked, {"config_groups", "missing"}, with("config_groups", Json(nullptr))},
      {"MethodUnknown", kPacked, {"quant_method", "bitsandbytes", "supported"}, with("quant_method", Json("bitsandbytes"))},
      {"BlockIsNoObject",
       kPacked,
       {"quantization_config", "wanted an object"},
       [](QuantToy& t) { t.model.config.set(kConfig, Json("gptq")); }},
  };
}

std::vector<QuantRow> kv_scales() {
  const std::string k0 = "model.layers.0.self_attn.k_scale", k1 = "model.layers.1.self_attn.k_scale";
  const std::string v1 = "model.layers.1.self_attn.v_scale";
  constexpr const char* kKvScheme = R"({"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": false, "symmetric": true})";
  const Change both = all({each_layer("k_scale", kOne), each_layer("v_scale", kOne)});
  return {
      {"KvScales", kFp8, kServed, both},
      {"A33KvScalesOfTheProjections", kFp8, kServed, all({each_layer("k_proj.k_scale", kOne), each_layer("v_proj.v_scale", kOne)})},
      {"KvScalesOfTheFusedProjection", kFp8, kServed, all({each_layer("qkv_proj.k_scale", kOne), each_layer("qkv_proj.v_scale", kOne)})},
      {"KvScalesOfTheAttention", kFp8, kServed, all({each_layer("attn.k_scale", kOne), each_layer("attn.v_scale", kOne)})},
      {"KvScaleForBoth", kFp8, kServed, each_layer("kv_scale", kOne)},
      {"KvOutputScales", kFp8, kServed, all({each_layer("k_proj.output_scale", kOne), each_layer("v_proj.output_scale", kOne)})},
      {"KvScaleNan", kFp8, {k0, "nan"}, all({both, scalar(k0, kNan)})},
      {"KvScaleNegative", kFp8, {k0, "-1"}, all({both, scalar(k0, -1)})},
      {"KvScaleOfManyElements", kFp8, {k0, "[2]"}, all({both, add(k0, fixture::constant_tensor({2}, 1))})},
      {"KvScaleOfValuesOnly", kFp8, {"v_scale", "no model.layers.0.self_attn.k_scale"}, each_layer("v_scale", kOne)},
      {"KvScaleOfOneLayer", kFp8, {"missing 1 (" + k0 + ")"}, add("model.layers.1.self_attn.k_scale", kOne)},
      {"KvScaleOfOneStage", kFp8, {"missing 1 (" + k0 + ")"}, add("model.layers.1.self_attn.k_scale", kOne), {}, 1, 2},
      {"KvScaleOfTheValuesOfOneLayer", kFp8, {"missing 1 (" + v1 + ")"}, all({both, drop(v1)})},
      {"KvScaleOfTheValuesOfOneStage", kFp8, {"missing 1 (" + v1 + ")"}, all({both, drop(v1)}), {}, 1, 2},
      {"KvScalesPromised", kPacked, kServed, all({both, with_json("kv_cache_scheme", kKvScheme)})},
      {"KvScalesPromisedOfAllButOneStage",
       kPacked,
       {"missing 2 (" + k1 + ", " + v1 + ")"},
       all({both, drop(k1), drop(v1), with_json("kv_cache_scheme", kKvScheme)}),
       {},
       1,
       2},
      {"KvScaleTwice", kFp8, {"duplicate", "k_proj.k_scale"}, all({both, each_layer("k_proj.k_scale", kOne)})},
  };
}

std::string row_name(const ::testing::TestParamInfo<QuantRow>& row) { return row.param.name; }

INSTANTIATE_TEST_SUITE_P(Recipes, QuantCheckpoint, ::testing::ValuesIn(recipes()), row_name);
INSTANTIATE_TEST_SUITE_P(Gptq, QuantCheckpoint, ::testing::ValuesIn(gptq()), row_name);
INSTANTIATE_TEST_SUITE_P(GptqHeadsAndPatterns, QuantCheckpoint, ::testing::ValuesIn(gptq_heads_and_patterns()), row_name);
INSTANTIATE_TEST_SUITE_P(Awq, QuantCheckpoint, ::testing::ValuesIn(awq()), row_name);
INSTANTIATE_TEST_SUITE_P(Fp8, QuantCheckpoint, ::testing::ValuesIn(fp8()), row_name);
INSTANTIATE_TEST_SUITE_P(Fp8HeadsAndBlocks, QuantCheckpoint, ::testing::ValuesIn(fp8_heads_and_blocks()), row_name);
INSTANTIATE_TEST_SUITE_P(Compressed, QuantCheckpoint, ::testing::ValuesIn(compressed()), row_name);
INSTANTIATE_TEST_SUITE_P(KvScales, QuantCheckpoint, ::testing::ValuesIn(kv_scales()), row_name);

TEST(QuantConfigFile, StandsInForTheBlockOfTheConfig) {
  for (const char* name : {"quantize_config.json", "hf_quant_config.json"}) {
    const bool modelopt = name[0] == 'h';
    QuantToy toy = fixture::quant_toy(modelopt ? QuantRecipe{.kind = Kind::kNvfp4ModelOpt} : kGptq);
    const TempFolder folder;
    Json block = *toy.model.config.find(kConfig), root;
    root.set("quantization", block);
    folder.write(name, (modelopt ? root : block).dump());
    toy.model.drop(kConfig);
    toy.model.write(folder);
    const std::vector<TokenId> prompt = fixture::toy_prompt(20);
    expect_oracle(serve(folder, prompt), fixture::toy_oracle(), toy.dequantised, prompt);
  }
}

}  // namespace
}  // namespace lamina::e2e
