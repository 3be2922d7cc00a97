#include "checkpoint/quant_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/config_fixture.h"
#include "tests/support/safetensors_writer.h"

namespace lamina {
namespace {

using Answer = QuantConfig::Answer;
using Kind = ModulePattern::Kind;
using Layout = QuantScheme::Layout;
using ::testing::HasSubstr;

Result<QuantConfig> parse(std::string_view json) {
  return parse_quant_config(parse_json(json, "block").value(), "config.json", "quantization_config.");
}

QuantConfig::Module module(std::string name) {
  return {.names = {name}, .embedding = name.ends_with("embed_tokens"), .head = name.ends_with("lm_head")};
}

std::string refusal(std::string_view json) {
  const Result<QuantConfig> config = parse(json);
  return config.ok() ? "was accepted" : config.error().message;
}

const std::string kProjection = "model.layers.3.self_attn.q_proj";

/// The scheme of an ordinary projection.
QuantScheme scheme(std::string_view json) {
  const Result<QuantConfig> config = parse(json);
  EXPECT_TRUE(config.ok()) << config.error().message;
  const QuantConfig::Decision decision = config->decide(module(kProjection));
  EXPECT_EQ(decision.answer, Answer::kQuantised);
  return *decision.scheme;
}

TEST(ModulePattern, MatchesByItsKind) {
  const struct {
    Kind kind;
    const char* text;
    const char* name;
    bool matches;
  } rows[] = {
      {Kind::kComponents, "self_attn.q_proj", "model.layers.3.self_attn.q_proj", true},
      {Kind::kComponents, "q_proj", "model.layers.3.self_attn.q_proj", true},
      {Kind::kComponents, "model.layers.3", "model.layers.3.mlp.up_proj", true},
      {Kind::kComponents, "model.layers.3", "model.layers.31.mlp.up_proj", false},
      {Kind::kComponents, "v_proj", "model.layers.3.self_attn.qkv_proj", false},
      {Kind::kComponents, "", "a", false},
      {Kind::kExact, "lm_head", "lm_head", true},
      {Kind::kExact, "lm_head", "model.lm_head", false},
      {Kind::kRegex, ".*self_attn.*", "model.layers.3.self_attn.q_proj", true},
      {Kind::kRegex, "model\\.layers\\.3\\.", "model.layers.3.mlp.up_proj", true},
      {Kind::kRegex, "layers", "model.layers.3.mlp.up_proj", false},  // as Python's re.match: from the start
      {Kind::kRegex, "(?!.*down).*mlp", "model.layers.3.mlp.up_proj", true},
      {Kind::kRegex, "(?!.*down).*mlp", "model.layers.3.mlp.down_proj", false},
      {Kind::kGlob, "model.layers.3*", "model.layers.31.mlp", true},
      {Kind::kGlob, "*.mlp.*_proj", "model.layers.3.mlp.up_proj", true},
      {Kind::kGlob, "*.mlp", "model.layers.3.mlp.up_proj", false},
      {Kind::kClass, "Linear", "anything", true},
      {Kind::kClass, "Embedding", "anything", false},
      {Kind::kClass, "Embedding", "model.embed_tokens", true},
  };
  for (const auto& row : rows) EXPECT_EQ(matches({row.kind, row.text}, module(row.name)), row.matches) << row.text << " and " << row.name;
}

TEST(ModulePattern, ARegexThatDoublesItsWorkWithEveryLetterEnds) {
  const std::string name(200, 'a');
  EXPECT_FALSE(matches({Kind::kRegex, "(a*)*b"}, module(name)));
}

TEST(QuantConfig, ReadsTheSchemesOfEveryMethod) {
  EXPECT_EQ(
      scheme(R"({"quant_method": "fp8", "activation_scheme": "static"})"),
      (QuantScheme{
          .layout = Layout::kFp8, .bits = 8, .scale_rows = 0, .input = {.type = InputQuant::Type::kFp8E4m3, .from_checkpoint = true}}));
  const QuantScheme blocks = scheme(R"({"quant_method": "fp8", "weight_block_size": [128, 64], "scale_fmt": "ue8m0"})");
  EXPECT_EQ(blocks.scale_rows, 128);
  EXPECT_EQ(blocks.scale_cols, 64);
  EXPECT_EQ(blocks.input.run, 64);
  EXPECT_TRUE(blocks.input.power_of_two);
  const QuantScheme gptq = scheme(R"({"quant_method": "gptq", "bits": 3, "group_size": -1, "desc_act": true, "sym": false})");
  EXPECT_EQ(gptq, (QuantScheme{.layout = Layout::kGptq, .bits = 3, .symmetric = false, .act_order = true, .zero_is_less_one = true}));
  EXPECT_FALSE(scheme(R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "gptq_v2"})").zero_is_less_one);
  EXPECT_EQ(scheme(R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "GEMM"})").layout, Layout::kAwq);
  EXPECT_EQ(scheme(R"({"w_bit": 4, "q_group_size": 64, "zero_point": true})").scale_cols, 64);  // without quant_method
  EXPECT_EQ(scheme(R"({"quant_algo": "NVFP4", "group_size": 16})").scale, QuantScheme::Scale::kE4m3);
  const QuantScheme block = scheme(R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"g": {
    "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": "128x64"},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 64, "dynamic": true}}}})");
  EXPECT_EQ(block.scale_rows, 128);
  EXPECT_EQ(block.input.run, 64);
}

TEST(QuantConfig, HeadsAndEmbeddingsAreLeftToTheFilesUnlessNamed) {
  const QuantConfig fp8 = *parse(R"({"quant_method": "fp8", "ignored_layers": ["model.layers.0"]})");
  EXPECT_EQ(fp8.decide(module("model.layers.0.mlp.up_proj")).answer, Answer::kPlain);
  EXPECT_EQ(fp8.decide(module("model.layers.1.mlp.up_proj")).answer, Answer::kQuantised);
  EXPECT_EQ(fp8.decide(module("lm_head")).answer, Answer::kUndecided);
  EXPECT_EQ(fp8.decide(module("model.embed_tokens")).answer, Answer::kUndecided);
  const QuantConfig gptq = *parse(R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "lm_head": true})");
  EXPECT_EQ(gptq.decide(module("lm_head")).answer, Answer::kQuantised);
  const QuantConfig embeddings = *parse(R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {
    "targets": ["Linear", "Embedding"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}})");
  EXPECT_EQ(embeddings.decide(module("lm_head")).answer, Answer::kQuantised);
}

TEST(QuantConfig, NamesOfOneGroupGoBeforeTheClassOfAnother) {
  const QuantConfig config = *parse(R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["re:.*gate_proj"],
    "config_groups": {
      "a": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 32}},
      "b": {"targets": ["re:.*down_proj"], "weights": {"num_bits": 8, "strategy": "channel"}}}})");
  EXPECT_EQ(config.decide(module("model.layers.0.mlp.down_proj")).scheme->bits, 8);
  EXPECT_EQ(config.decide(module("model.layers.0.mlp.up_proj")).scheme->bits, 4);
  EXPECT_EQ(config.decide(module("model.layers.0.mlp.gate_proj")).answer, Answer::kPlain);
}

TEST(QuantConfig, TheKvCacheSchemeIsFp8OrRefused) {
  const auto with_kv = [](std::string_view kv) {
    return cat(R"({"quant_method": "compressed-tensors", "format": "float-quantized", "kv_cache_scheme": )", kv,
               R"(, "config_groups": {"g": {
      "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}})");
  };
  EXPECT_FALSE(parse(with_kv("null"))->fp8_kv_cache());
  EXPECT_TRUE(parse(with_kv(R"({"num_bits": 8, "type": "float", "strategy": "tensor"})"))->fp8_kv_cache());
  EXPECT_THAT(refusal(with_kv(R"({"num_bits": 4, "type": "int"})")), HasSubstr("quantization_config.kv_cache_scheme.num_bits"));
  EXPECT_THAT(refusal(with_kv(R"({"num_bits": 8, "type": "float", "strategy": "head"})")), HasSubstr("kv_cache_scheme.strategy"));
}

TEST(QuantConfig, RefusalsNameFileKeyValueAndWhatIsAllowed) {
  const struct {
    const char* json;
    const char* wanted;
  } rows[] = {
      {R"({"quant_method": "bitsandbytes"})", "config.json: key \"quantization_config.quant_method\" is \"bitsandbytes\""},
      {R"({})", "\"quantization_config.quant_method\" is missing"},
      {R"({"quant_method": "gptq", "group_size": 32})", "\"quantization_config.bits\" is missing"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 16777217})", "16777217"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"+:x": {"bits": 6}}})", "dynamic.+:x.bits\" is 6"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"+:x": 4}})", "wanted an object"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:[": {}}})", "regular expression \"[\""},
      {R"({"quant_method": "fp8", "ignored_layers": ["re:\\w{1,49000}"]})", "counts make it larger than 10000 characters"},
      {R"({"quant_method": "fp8", "ignored_layers": ["re:((x{9}){0,99}){99,}"]})", "counts make it larger than 10000 characters"},
      {R"({"quant_method": "fp8", "fmt": "e5m2"})", "supported: e4m3"},
      {R"({"quant_method": "mxfp8", "weight_block_size": [1, 16]})", "MXFP8 has [1,32]"},
      {R"({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"})", "supported: FP8, NVFP4"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"]}}})",
       "config_groups.g.weights\" is missing"},
      {R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": "128by128"}}}})",
       "wanted two sizes"},
      {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
          "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true, "symmetric": false}}}})",
       "input_activations.symmetric\" is false"},
      {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
          "input_activations": {"num_bits": 4, "type": "int", "dynamic": true}}}})",
       "input_activations.num_bits\" is 4"},
      {R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"num_bits": 8, "type": "int", "strategy": "group", "group_size": 32, "symmetric": false},
          "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true}}}})",
       "packed 8-bit weights with zero points"},
      {R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32},
          "input_activations": {"num_bits": 8, "type": "int", "strategy": "tensor", "dynamic": false}}}})",
       "input_activations.dynamic\" is false"},
      {R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "actorder": "group"},
          "input_activations": {"num_bits": 8, "type": "int", "strategy": "group", "group_size": 32, "dynamic": true}}}})",
       "activation order"},
      {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"targets": ["Linear"],
          "weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
          "input_activations": {"num_bits": 8, "type": "int", "strategy": "tokne", "dynamic": true}}}})",
       "input_activations.strategy\" is \"tokne\""},
      {R"({"quant_method": "compressed-tensors", "format": "int-quantized", "transform_config": {"config_groups": {"R1": {}}},
          "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}})",
       "transform_config\" is not empty"},
  };
  for (const auto& row : rows) EXPECT_THAT(refusal(row.json), HasSubstr(row.wanted));
}

TEST(LoadQuantConfig, TheBlockOfTheConfigGoesBeforeFilesBesideIt) {
  const fixture::TempFolder folder;
  EXPECT_FALSE(load_quant_config(*fixture::tiny_config(), folder.path())->has_value());
  folder.write("quantize_config.json", R"({"bits": 4, "group_size": 32})");
  EXPECT_EQ((**load_quant_config(*fixture::tiny_config(), folder.path())).method(), "gptq");
  const auto own = fixture::tiny_config(R"({"compression_config": {"quant_method": "fp8"}})");
  EXPECT_EQ((**load_quant_config(*own, folder.path())).method(), "fp8");
  folder.write("quantize_config.json", R"({"bits": 40, "group_size": 32})");
  EXPECT_THAT(load_quant_config(*fixture::tiny_config(), folder.path()).error().message,
              HasSubstr("quantize_config.json: key \"bits\" is 40"));
}

}  // namespace
}  // namespace lamina
