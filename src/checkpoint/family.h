#pragma once
// What a model family's config class assumes where config.json is silent: one table.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// Which layers slide when the config has no `layer_types`.
enum class WindowRule {
  kNone,                 // the family has no window; a `sliding_window` is not used
  kAll,                  // every layer, as soon as `sliding_window` is set
  kFromMaxWindowLayers,  // layers >= max_window_layers, and only if use_sliding_window
};

/// Which of the config's flags switch a group of biases on: any of the keys, or `always`.
struct BiasRule {
  bool always = false;
  std::array<std::string_view, 2> keys = {};
};

struct Family {
  std::string_view model_type;
  std::string_view stem;  // of the class names: stem + "ForCausalLM", "Model", ...
  bool tie_word_embeddings = false;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  int64_t max_position_embeddings = 2048;
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  WindowRule window = WindowRule::kNone;
  int64_t sliding_window = 0;  // where the key is absent (a null means none); 0: none
  int64_t max_window_layers = 0;
  BiasRule qkv_bias, o_bias, mlp_bias;
};

/// The family of a class name ("Qwen2ForCausalLM") or of a model_type ("qwen2"); nullptr when there is none.
const Family* family_of_architecture(std::string_view architecture);
const Family* family_of_model_type(std::string_view model_type);
/// stem + "ForCausalLM".
std::string causal_architecture(const Family& family);
/// The causal class of every family, for error messages.
std::vector<std::string> known_architectures();

}  // namespace lamina
