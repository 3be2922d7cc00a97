#include "checkpoint/family.h"

#include <algorithm>

#include "base/strings.h"

namespace lamina {

namespace {

constexpr BiasRule kNever = {};
constexpr BiasRule kAttentionBias = {.keys = {"attention_bias"}};
constexpr BiasRule kMlpBias = {.keys = {"mlp_bias"}};

// Defaults as in transformers' configuration_<model_type>.py (internlm3, iquestcoder: the file beside the published checkpoint).
constexpr std::array<Family, 7> kFamilies = {{
    {.model_type = "llama",
     .stem = "Llama",
     .qkv_bias = {.keys = {"attention_bias", "bias"}},
     .o_bias = {.keys = {"attention_bias", "bias"}},
     .mlp_bias = kMlpBias},
    {.model_type = "mistral",
     .stem = "Mistral",
     .max_position_embeddings = 131072,
     .window = WindowRule::kAll,
     .sliding_window = 4096,
     .qkv_bias = kNever,
     .o_bias = kNever,
     .mlp_bias = kNever},
    {.model_type = "phi3",
     .stem = "Phi3",
     .rms_norm_eps = 1e-5,
     .max_position_embeddings = 4096,
     .window = WindowRule::kAll,
     .qkv_bias = kNever,
     .o_bias = kNever,
     .mlp_bias = kNever},
    {.model_type = "internlm3",
     .stem = "InternLM3",
     .max_position_embeddings = 32768,
     .qkv_bias = {.keys = {"qkv_bias"}},
     .o_bias = {.keys = {"bias"}},
     .mlp_bias = {.keys = {"bias"}}},
    {.model_type = "iquestcoder",
     .stem = "IQuestCoder",
     .window = WindowRule::kFromMaxWindowLayers,
     .qkv_bias = kAttentionBias,
     .o_bias = kAttentionBias,
     .mlp_bias = kMlpBias},
    {.model_type = "qwen2",
     .stem = "Qwen2",
     .max_position_embeddings = 32768,
     .window = WindowRule::kFromMaxWindowLayers,
     .sliding_window = 4096,
     .max_window_layers = 28,
     .qkv_bias = {.always = true},
     .o_bias = kNever,
     .mlp_bias = kNever},
    {.model_type = "qwen3",
     .stem = "Qwen3",
     .max_position_embeddings = 32768,
     .head_dim = 128,
     .window = WindowRule::kFromMaxWindowLayers,
     .sliding_window = 4096,
     .max_window_layers = 28,
     .qkv_bias = kAttentionBias,
     .o_bias = kAttentionBias,
     .mlp_bias = kNever},
}};

// What a class name may add to a stem; "Qwen2MoeForCausalLM" is no Qwen2.
constexpr std::array<std::string_view, 4> kTasks = {"ForCausalLM", "Model", "ForSequenceClassification", "ForTokenClassification"};

}  // namespace

const Family* family_of_architecture(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (!architecture.starts_with(family.stem)) continue;
    const std::string_view task = architecture.substr(family.stem.size());
    if (std::ranges::find(kTasks, task) != kTasks.end()) return &family;
  }
  return nullptr;
}

const Family* family_of_model_type(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == kFamilies.end() ? nullptr : &*found;
}

std::string causal_architecture(const Family& family) { return cat(family.stem, "ForCausalLM"); }

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.push_back(causal_architecture(family));
  return names;
}

}  // namespace lamina
