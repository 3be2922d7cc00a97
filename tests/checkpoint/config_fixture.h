#pragma once
// A small config to vary.

#include <string>
#include <string_view>

#include "base/json.h"
#include "checkpoint/config.h"

namespace lamina::fixture {

/// A LLaMA of 4 layers; `patch` is merged over it, `drop` is removed.
inline Json tiny_json(std::string_view patch = "{}", std::string_view drop = "") {
  Json root = *parse_json(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 259, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false, "torch_dtype": "float32"})",
                          "tiny");
  merge_json(root, *parse_json(patch, "patch"));
  std::erase_if(root.as_object(), [&](const Json::Member& member) { return member.first == drop; });
  return root;
}

inline Result<ModelConfig> tiny_config(std::string_view patch = "{}", std::string_view drop = "") {
  return parse_model_config(tiny_json(patch, drop), "config.json");
}

}  // namespace lamina::fixture
