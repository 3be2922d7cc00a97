// tests/configs: published shapes parse to the values their makers state.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"
#include "base/strings.h"
#include "checkpoint/config.h"

namespace lamina {
namespace {

const std::string kConfigs = LAMINA_SOURCE_DIR "/tests/configs";

ModelConfig load(const std::string& name, std::string_view overrides = {}) {
  auto config = load_model_config(kConfigs + "/" + name, overrides);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? *config : ModelConfig{};
}

/// A LLaMA skeleton's parameters: independent of the model layer's own count.
int64_t count_parameters(const ModelConfig& c) {
  const int64_t q = c.num_attention_heads * c.head_dim;
  const int64_t kv = c.num_key_value_heads * c.head_dim;
  int64_t layer = 2 * c.hidden_size + c.hidden_size * (q + 2 * kv) + q * c.hidden_size + 3 * c.hidden_size * c.intermediate_size;
  if (c.qkv_bias) layer += q + 2 * kv;
  if (c.o_bias) layer += c.hidden_size;
  if (c.mlp_bias) layer += 2 * c.intermediate_size + c.hidden_size;
  if (c.model_type == "qwen3") layer += 2 * c.head_dim;
  return c.num_hidden_layers * layer + c.hidden_size + c.vocab_size * c.hidden_size * (c.tie_word_embeddings ? 1 : 2);
}

TEST(PublishedConfigs, GiveThePublishedParameterTotals) {
  const auto table = read_file(kConfigs + "/parameters.tsv");
  ASSERT_TRUE(table.ok());
  size_t rows = 0;
  for (const std::string& line : split(*table, '\n')) {
    if (line.empty()) continue;
    const auto fields = split(line, '\t');
    ASSERT_EQ(fields.size(), 2U) << line;
    EXPECT_EQ(count_parameters(load(fields[0])), std::stoll(fields[1])) << fields[0];
    ++rows;
  }
  size_t folders = 0;
  const auto names = list_folder(kConfigs);
  for (const std::string& name : names.value()) folders += is_directory(kConfigs + "/" + name) ? 1 : 0;
  EXPECT_EQ(rows, folders) << "a folder of tests/configs without a row in parameters.tsv, or the reverse";
}

TEST(PublishedConfigs, Llama31) {
  const ModelConfig c = load("llama-3.1-8b");
  EXPECT_EQ(c.architectures, std::vector<std::string>{"LlamaForCausalLM"});
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.num_key_value_heads, 8);
  EXPECT_EQ(c.context_length(), 131072);
  EXPECT_FALSE(c.tie_word_embeddings || c.qkv_bias || c.o_bias || c.mlp_bias);
  ASSERT_EQ(c.ropes.size(), 1U);
  EXPECT_EQ(c.ropes[0].type, RopeType::kLlama3);
  EXPECT_EQ(c.ropes[0].theta, 500000.0);
  EXPECT_EQ(c.ropes[0].factor, 8.0);
  EXPECT_EQ(c.ropes[0].original_max_position_embeddings, 8192);
  EXPECT_EQ(c.dtype, DType::kBF16);
}

TEST(PublishedConfigs, MistralWindows) {
  EXPECT_EQ(load("mistral-7b-v0.1").layer_windows, std::vector<int64_t>(32, 4096));
  EXPECT_EQ(load("mistral-7b-v0.3").layer_windows, std::vector<int64_t>(32, 0));
  const ModelConfig nemo = load("mistral-nemo-12b");
  EXPECT_EQ(nemo.head_dim, 128);  // hidden / heads would be 160
}

TEST(PublishedConfigs, PhiLongRope) {
  for (const char* name : {"phi-3-mini-128k", "phi-4-mini"}) {
    const ModelConfig c = load(name);
    const RopeConfig& rope = c.rope(LayerId(31));
    EXPECT_EQ(rope.type, RopeType::kLongRope);
    EXPECT_EQ(rope.rotary_dim, 96);  // 96 * 1 and 128 * 0.75
    EXPECT_EQ(rope.factor, 32.0);
    EXPECT_EQ(rope.original_max_position_embeddings, 4096);
    EXPECT_EQ(rope.short_factor.size(), 48U);
    EXPECT_EQ(c.context_length(), 131072);
    EXPECT_EQ(c.sliding_window(LayerId(0)), 262144);
  }
}

TEST(PublishedConfigs, Qwen) {
  const ModelConfig two = load("qwen2.5-7b");
  EXPECT_TRUE(two.qkv_bias);
  EXPECT_FALSE(two.o_bias);
  EXPECT_EQ(two.layer_windows, std::vector<int64_t>(28, 0));
  const ModelConfig three = load("qwen3-0.6b");
  EXPECT_EQ(three.head_dim, 128);  // hidden / heads would be 64
  EXPECT_TRUE(three.tie_word_embeddings);
  EXPECT_FALSE(three.qkv_bias);
}

TEST(PublishedConfigs, YarnAsQwenDocumentsItReachesOriginalTimesFactor) {
  const ModelConfig c =
      load("qwen3-8b", R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})");
  EXPECT_EQ(c.context_length(), 131072);
}

TEST(PublishedConfigs, InternLm3AndIQuestCoder) {
  const ModelConfig internlm = load("internlm3-8b");
  EXPECT_EQ(internlm.ropes[0].type, RopeType::kDynamic);
  EXPECT_EQ(internlm.ropes[0].factor, 6.0);
  EXPECT_EQ(internlm.num_key_value_heads, 2);
  const ModelConfig coder = load("iquest-coder-v1-40b");
  EXPECT_EQ(coder.eos_token_ids, (std::vector<int32_t>{2, 75864, 75869}));
}

}  // namespace
}  // namespace lamina
