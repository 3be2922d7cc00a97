#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "tests/checkpoint/config_fixture.h"
#include "tests/support/safetensors_writer.h"

namespace lamina {
namespace {

using fixture::tiny_config;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct BadConfig {
  const char* name;
  const char* patch;
  const char* drop;
  std::vector<std::string> wanted;  // parts of the one error
};

class BadConfigs : public ::testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, IsRefusedByFileKeyAndValue) {
  const auto config = tiny_config(GetParam().patch, GetParam().drop);
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message, HasSubstr("config.json"));
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  for (const std::string& part : GetParam().wanted) EXPECT_THAT(config.error().message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadConfigs,
    ::testing::Values(
        BadConfig{"Missing", "{}", "hidden_size", {"required key \"hidden_size\" is missing"}},
        BadConfig{"Null", R"({"vocab_size": null})", "", {"\"vocab_size\" is null", "required"}},
        BadConfig{"String", R"({"hidden_size": "64"})", "", {"\"hidden_size\" is a string (\"64\"), wanted an integer"}},
        BadConfig{"Fraction", R"({"num_hidden_layers": 2.5})", "", {"\"num_hidden_layers\"", "2.5", "an integer"}},
        BadConfig{"Zero", R"({"num_attention_heads": 0})", "", {"\"num_attention_heads\" is 0, allowed are 1 to "}},
        BadConfig{"Negative", R"({"intermediate_size": -1})", "", {"\"intermediate_size\" is -1, allowed are 1 to "}},
        BadConfig{"Huge", R"({"vocab_size": 9223372036854775807})", "", {"\"vocab_size\" is 9223372036854775807, allowed are 1 to "}},
        BadConfig{"HugeLayers", R"({"num_hidden_layers": 10001})", "", {"\"num_hidden_layers\" is 10001, allowed are 1 to 10000"}},
        BadConfig{
            "HugeHeads", R"({"num_attention_heads": 524288, "num_key_value_heads": 1, "head_dim": 1024})", "", {"head_dim", "allowed"}},
        BadConfig{"HeadsOverKv", R"({"num_key_value_heads": 3})", "", {"\"num_key_value_heads\" is 3", "num_attention_heads (4)"}},
        BadConfig{"HiddenOverHeads", R"({"num_attention_heads": 6})", "", {"\"num_attention_heads\" is 6", "hidden_size (64)", "head_dim"}},
        BadConfig{"OddHeadDim", R"({"head_dim": 15})", "", {"15", "even"}},
        BadConfig{"Flag", R"({"tie_word_embeddings": "true"})", "", {"\"tie_word_embeddings\" is a string", "true or false"}},
        BadConfig{"Activation", R"({"hidden_act": "gelu"})", "", {"\"hidden_act\" is \"gelu\", supported: silu"}},
        BadConfig{"Eps", R"({"rms_norm_eps": -1})", "", {"\"rms_norm_eps\" is -1"}},
        BadConfig{"Dtype", R"({"torch_dtype": "float99"})", "", {"\"torch_dtype\"", "float99"}},
        BadConfig{"DtypeNotComputedIn", R"({"dtype": "int8"})", "", {"\"dtype\" is \"int8\", supported: float32, float16, bfloat16"}},
        BadConfig{"Clip", R"({"clip_qkv": 8.0})", "", {"\"clip_qkv\" is 8", "only null"}},
        BadConfig{"Eos", R"({"eos_token_id": ["</s>"]})", "", {"\"eos_token_id\"", "</s>", "an integer"}},
        BadConfig{"EosRange", R"({"eos_token_id": 4294967296})", "", {"\"eos_token_id\" holds 4294967296"}},
        BadConfig{"LayerTypesShort", R"({"layer_types": ["full_attention"]})", "", {"\"layer_types\" has 1 entries", "4 layers"}},
        BadConfig{"LayerTypesUnknown",
                  R"({"num_hidden_layers": 1, "layer_types": ["linear_attention"]})",
                  "",
                  {"\"linear_attention\"", "full_attention, sliding_attention"}},
        BadConfig{"Architecture",
                  R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"})",
                  "",
                  {"GPT2LMHeadModel", "gpt2", "supported: LlamaForCausalLM, MistralForCausalLM", "Qwen3ForCausalLM"}},
        BadConfig{"CousinArchitecture",
                  R"({"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe"})",
                  "",
                  {"Qwen2MoeForCausalLM", "is not supported"}},
        BadConfig{"ArchitectureKind", R"({"architectures": [1]})", "", {"\"architectures\" is an array", "a string"}}),
    [](const auto& test) { return test.param.name; });

TEST(Config, NoArchitectureAtAllIsRefused) {
  const auto config = parse_model_config(*parse_json(R"({"hidden_size": 64})", "c"), "config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message, HasSubstr("required key \"architectures\" is missing; supported: LlamaForCausalLM"));
}

TEST(Config, ModelTypeStandsInForMissingArchitectures) {
  EXPECT_THAT(tiny_config("{}", "architectures")->architectures, ElementsAre("LlamaForCausalLM"));
}

TEST(Config, KeyValueHeadsAbsentOrNullEqualTheAttentionHeads) {
  EXPECT_EQ(tiny_config("{}", "num_key_value_heads")->num_key_value_heads, 4);
  EXPECT_EQ(tiny_config(R"({"num_key_value_heads": null})")->num_key_value_heads, 4);
}

TEST(Config, HeadDimWinsOverHiddenOverHeads) {
  EXPECT_EQ(tiny_config()->head_dim, 16);
  EXPECT_EQ(tiny_config(R"({"head_dim": 24})")->head_dim, 24);
  EXPECT_EQ(tiny_config(R"({"head_dim": null})")->head_dim, 16);
  EXPECT_EQ(tiny_config(R"({"head_dim": 24})")->ropes[0].rotary_dim, 24);
}

TEST(Config, FamiliesHaveTheirOwnDefaults) {
  const char* silent = R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})";
  const auto qwen3 = parse_model_config(*parse_json(silent, "c"), "c");
  ASSERT_TRUE(qwen3.ok()) << qwen3.error().message;
  EXPECT_EQ(qwen3->head_dim, 128);
  EXPECT_EQ(qwen3->max_position_embeddings, 32768);
  EXPECT_EQ(qwen3->rms_norm_eps, 1e-6);
  EXPECT_FALSE(qwen3->tie_word_embeddings);
  EXPECT_EQ(tiny_config(R"({"architectures": ["Phi3ForCausalLM"]})", "rms_norm_eps")->rms_norm_eps, 1e-5);
  EXPECT_EQ(tiny_config("{}", "max_position_embeddings")->max_position_embeddings, 2048);
}

struct BiasCase {
  const char* name;
  const char* patch;
  bool qkv, o, mlp;
};
class Biases : public ::testing::TestWithParam<BiasCase> {};
TEST_P(Biases, FollowTheFamilysFlags) {
  const auto config = tiny_config(GetParam().patch);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->qkv_bias, GetParam().qkv);
  EXPECT_EQ(config->o_bias, GetParam().o);
  EXPECT_EQ(config->mlp_bias, GetParam().mlp);
}
INSTANTIATE_TEST_SUITE_P(
    Families, Biases,
    ::testing::Values(BiasCase{"LlamaSilent", "{}", false, false, false},
                      BiasCase{"LlamaBoth", R"({"attention_bias": true, "mlp_bias": true})", true, true, true},
                      BiasCase{"LlamaOldName", R"({"bias": true})", true, true, false},
                      BiasCase{"Mistral", R"({"architectures": ["MistralForCausalLM"]})", false, false, false},
                      BiasCase{"Phi3", R"({"architectures": ["Phi3ForCausalLM"]})", false, false, false},
                      BiasCase{"InternLm3Qkv", R"({"architectures": ["InternLM3ForCausalLM"], "qkv_bias": true})", true, false, false},
                      BiasCase{"InternLm3Rest", R"({"architectures": ["InternLM3ForCausalLM"], "bias": true})", false, true, true},
                      BiasCase{"IQuestCoder", R"({"architectures": ["IQuestCoderForCausalLM"], "attention_bias": true})", true, true,
                               false},
                      BiasCase{"Qwen2", R"({"architectures": ["Qwen2ForCausalLM"]})", true, false, false},
                      BiasCase{"Qwen3", R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": true})", true, true, false}),
    [](const auto& test) { return test.param.name; });

struct WindowCase {
  const char* name;
  const char* patch;
  std::vector<int64_t> windows;
};
class Windows : public ::testing::TestWithParam<WindowCase> {};
TEST_P(Windows, FollowTheFamilysRule) {
  const auto config = tiny_config(GetParam().patch);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->layer_windows, GetParam().windows);
}
INSTANTIATE_TEST_SUITE_P(
    Families, Windows,
    ::testing::Values(WindowCase{"LlamaHasNone", R"({"sliding_window": 8})", {0, 0, 0, 0}},
                      WindowCase{"MistralAll", R"({"architectures": ["MistralForCausalLM"], "sliding_window": 8})", {8, 8, 8, 8}},
                      WindowCase{"MistralAbsentIs4096", R"({"architectures": ["MistralForCausalLM"]})", {4096, 4096, 4096, 4096}},
                      WindowCase{"MistralNull", R"({"architectures": ["MistralForCausalLM"], "sliding_window": null})", {0, 0, 0, 0}},
                      WindowCase{"Phi3Absent", R"({"architectures": ["Phi3ForCausalLM"]})", {0, 0, 0, 0}},
                      WindowCase{"Qwen2Off",
                                 R"({"architectures": ["Qwen2ForCausalLM"], "sliding_window": 8, "max_window_layers": 2,
                                   "use_sliding_window": false})",
                                 {0, 0, 0, 0}},
                      WindowCase{"Qwen2On",
                                 R"({"architectures": ["Qwen2ForCausalLM"], "sliding_window": 8, "max_window_layers": 2,
                                  "use_sliding_window": true})",
                                 {0, 0, 8, 8}},
                      WindowCase{"Qwen2SilentIsOff",
                                 R"({"architectures": ["Qwen2ForCausalLM"], "sliding_window": 8, "max_window_layers": 2})",
                                 {0, 0, 0, 0}},
                      WindowCase{"Qwen3LayerTypes",
                                 R"({"architectures": ["Qwen3ForCausalLM"], "sliding_window": 8, "use_sliding_window": true,
            "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]})",
                                 {8, 0, 0, 8}},
                      WindowCase{"Qwen3LayerTypesOff",
                                 R"({"architectures": ["Qwen3ForCausalLM"], "sliding_window": 8, "use_sliding_window": false,
            "layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]})",
                                 {0, 0, 0, 0}}),
    [](const auto& test) { return test.param.name; });

TEST(Config, WrapperGivesItsLanguageModel) {
  const auto wrapped = [](const char* outer, const char* inner) {
    Json root = *parse_json(outer, "outer");
    root.set("text_config", fixture::tiny_json(inner));
    return parse_model_config(root, "config.json");
  };
  const char* outer = R"({"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "eos_token_id": 7})";
  const auto tied = wrapped(outer, R"({"tie_word_embeddings": true})");
  ASSERT_TRUE(tied.ok()) << tied.error().message;
  EXPECT_TRUE(tied->tie_word_embeddings);
  EXPECT_THAT(tied->architectures, ElementsAre("LlamaForCausalLM"));
  EXPECT_EQ(tied->wrapper, "LlavaForConditionalGeneration");
  EXPECT_EQ(tied->model_type, "llama");
  EXPECT_THAT(tied->eos_token_ids, ElementsAre(7));
  // The inner flag wins over the outer one, the outer one counts where the inner is silent.
  const char* outer_tied = R"({"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": true, "dtype": "bfloat16"})";
  EXPECT_FALSE(wrapped(outer_tied, R"({"tie_word_embeddings": false})")->tie_word_embeddings);
  EXPECT_TRUE(wrapped(outer_tied, R"({"tie_word_embeddings": null})")->tie_word_embeddings);
  EXPECT_EQ(wrapped(outer_tied, "{}")->dtype, DType::kF32);
  EXPECT_EQ(wrapped(outer_tied, R"({"torch_dtype": null})")->dtype, DType::kBF16);
  EXPECT_EQ(wrapped(outer_tied, "{}")->wrapper, "");
  const auto unknown = wrapped(R"({"architectures": ["FooVLM"]})", R"({"architectures": null, "model_type": "foo"})");
  EXPECT_FALSE(unknown.ok());
}

TEST(Config, DtypeThenTorchDtypeThenFirstFloatTensor) {
  fixture::TempFolder folder;
  const float one = 1;
  fixture::write_checkpoint(folder, {{"a.mask", {"BOOL", {1}, "x"}}, {"b", fixture::make_tensor(DType::kF16, {1}, {&one, 1})}});
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto resolved = [&](const char* patch, const char* drop = "") { return resolve_dtype(*tiny_config(patch, drop), &*checkpoint); };
  EXPECT_EQ(resolved(R"({"torch_dtype": "bfloat16"})"), DType::kBF16);
  EXPECT_EQ(resolved(R"({"dtype": "bfloat16"})", "torch_dtype"), DType::kBF16);
  EXPECT_EQ(resolved(R"({"torch_dtype": null, "dtype": "bfloat16"})"), DType::kBF16);
  EXPECT_EQ(resolved(R"({"torch_dtype": "float32", "dtype": "bfloat16"})"), DType::kBF16);
  EXPECT_EQ(resolved("{}", "torch_dtype"), DType::kF16);
  EXPECT_EQ(resolved(R"({"torch_dtype": null})"), DType::kF16);
}

TEST(Config, TokenIdsAreOneOrSeveral) {
  EXPECT_THAT(tiny_config(R"({"eos_token_id": 2})")->eos_token_ids, ElementsAre(2));
  EXPECT_THAT(tiny_config(R"({"eos_token_id": [2, 5]})")->eos_token_ids, ElementsAre(2, 5));
  EXPECT_TRUE(tiny_config(R"({"eos_token_id": null})")->eos_token_ids.empty());
  EXPECT_EQ(tiny_config(R"({"pad_token_id": -1})")->pad_token_id, std::nullopt);
}

TEST(Config, TheQuantisationBlockIsFound) {
  EXPECT_EQ(tiny_config()->quantization_config(), nullptr);
  const auto config = tiny_config(R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})");
  ASSERT_NE(config->quantization_config(), nullptr);
}

TEST(LoadConfig, OverridesAreMergedMemberByMember) {
  fixture::TempFolder folder;
  folder.write("config.json", tiny_config(R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})")->raw.dump());
  const auto config = load_model_config(folder.path(), R"({"rope_scaling": {"factor": 2}, "vocab_size": 300, "unheard_of": 1})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->vocab_size, 300);
  EXPECT_EQ(config->ropes[0].type, RopeType::kLinear);
  EXPECT_EQ(config->ropes[0].factor, 2.0);
  EXPECT_EQ(config->reader().value_or<int64_t>({"unheard_of"}, 0).value(), 1);
  EXPECT_THAT(load_model_config(folder.path(), "[1]").error().message, HasSubstr("--json-model-override-args is an array ([1])"));
  EXPECT_THAT(load_model_config(folder.path(), "{").error().message, HasSubstr("--json-model-override-args"));
}

TEST(LoadConfig, FilesThatAreNoConfigAreNamed) {
  fixture::TempFolder folder;
  const auto message = [&] { return load_model_config(folder.path()).error().message; };
  EXPECT_THAT(message(), HasSubstr(folder.file("config.json") + " is missing"));
  folder.write("config.json", "");
  EXPECT_THAT(message(), HasSubstr(folder.file("config.json") + " is empty"));
  folder.write("config.json", "{\"hidden_size\": ");
  EXPECT_THAT(message(), HasSubstr(folder.file("config.json")));
  folder.write("config.json", "[]");
  EXPECT_THAT(message(), HasSubstr("is an array, wanted an object"));
  folder.write("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 500\n");
  EXPECT_THAT(message(), HasSubstr("git-lfs pointer"));
  EXPECT_THAT(load_model_config(folder.file("nowhere")).error().message, HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace lamina
