#pragma once
// config.json of a text decoder, with the family's defaults filled in. Field names are Hugging Face's.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/rope_config.h"
#include "tensor/dtype.h"

namespace lamina {

struct ModelConfig {
  std::string source;                      // the file, for messages
  std::vector<std::string> architectures;  // class names of the language model, most wanted first
  std::string wrapper;                     // class of the multimodal wrapper whose text_config this is; empty: none
  std::string model_type;

  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0;
  std::string hidden_act;  // "silu"
  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // q_proj, k_proj, v_proj
  bool o_bias = false;    // o_proj
  bool mlp_bias = false;  // gate_proj, up_proj, down_proj

  std::vector<RopeConfig> ropes;       // the distinct ones
  std::vector<int> layer_ropes;        // [num_hidden_layers], index into ropes
  std::vector<int64_t> layer_windows;  // [num_hidden_layers], keys a query sees, itself included; 0: all
  std::vector<int32_t> bos_token_ids;  // usually one; empty: none
  std::vector<int32_t> eos_token_ids;  // any of them ends a sequence; generation_config.json goes first (generation_config.h)
  std::optional<int32_t> pad_token_id;
  std::optional<DType> dtype;  // as the config says it; resolve_dtype (safetensors.h) also asks the tensors

  Json raw;  // the language model's object after overrides, for keys of one family

  const RopeConfig& rope(LayerId layer) const { return ropes[static_cast<size_t>(layer_ropes[static_cast<size_t>(layer.value)])]; }
  /// 0: full attention.
  int64_t sliding_window(LayerId layer) const { return layer_windows[static_cast<size_t>(layer.value)]; }
  /// Longest sequence the model was made for: the least over its ropes (RopeConfig::context_length).
  int64_t context_length() const;
  /// Reads keys that only one family has; the config must outlive the reader.
  ConfigReader reader() const { return {raw, source}; }
  /// The quantisation block as it stands in the file, or nullptr for a plain checkpoint.
  const Json* quantization_config() const;
};

/// Reads a parsed config.json; `what` names it in messages. A wrapper's `text_config` is taken as the model: its own keys win, the outer
/// object gives what it lacks of tie_word_embeddings, dtype, token ids and quantisation. Errors name file, key, value and what is allowed;
/// an unknown architecture lists the known ones. Sizes are bounded so that products of two stay far inside int64.
Result<ModelConfig> parse_model_config(const Json& root, std::string_view what);

/// Reads `folder`/config.json. `overrides` is the JSON object of --json-model-override-args, merged over the file member by member
/// (empty: none).
Result<ModelConfig> load_model_config(const std::string& folder, std::string_view overrides = {});

/// The ids under `key`: an integer, an array of integers, or null and absent for none. Negative ids mean none.
Result<std::vector<int32_t>> read_token_ids(const ConfigReader& reader, std::string_view key);

/// Reads and parses a JSON file of a checkpoint that must hold an object; recognises git-lfs pointers.
Result<Json> read_json_object(const std::string& path);

}  // namespace lamina
