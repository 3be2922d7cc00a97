#include "checkpoint/config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "checkpoint/family.h"
#include "checkpoint/lfs.h"

namespace lamina {

namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 20;  // hidden_size, heads * head_dim
constexpr int64_t kMaxInner = int64_t{1} << 24;  // intermediate_size
constexpr int64_t kMaxLayers = 10000;
constexpr int64_t kMaxVocab = int64_t{1} << 26;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";

// Keys that change the arithmetic in a way no model here carries out: refused unless null.
constexpr std::array<std::string_view, 1> kRefusedKeys = {"clip_qkv"};
// What a wrapper may say for its language model: the first group that the inner object does not settle itself is copied.
constexpr std::array<std::array<std::string_view, 2>, 6> kInherited = {{{"tie_word_embeddings"},
                                                                        {"dtype", "torch_dtype"},
                                                                        {"bos_token_id"},
                                                                        {"eos_token_id"},
                                                                        {"pad_token_id"},
                                                                        {"quantization_config", "compression_config"}}};

bool is_set(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && !value->is_null();
}

/// The language model's object: text_config of a wrapper with what it inherits, or the root itself.
Json language_model_object(const Json& root) {
  const Json* inner = root.find("text_config");
  if (inner == nullptr || !inner->is_object()) return root;
  Json out = *inner;
  for (const auto& spellings : kInherited) {
    const bool settled = std::ranges::any_of(spellings, [&](std::string_view key) { return is_set(out, key); });
    if (settled) continue;
    for (std::string_view key : spellings) {
      if (is_set(root, key)) out.set(key, *root.find(key));
    }
  }
  return out;
}

Result<std::vector<std::string>> read_architectures(const ConfigReader& reader) {
  const Json* value = reader.find({"architectures"});
  if (value != nullptr && value->is_string()) return std::vector<std::string>{value->as_string()};
  return reader.value_or<std::vector<std::string>>({"architectures"}, {});
}

const Family* first_family(const std::vector<std::string>& architectures) {
  for (const std::string& architecture : architectures) {
    if (const Family* family = family_of_architecture(architecture)) return family;
  }
  return nullptr;
}

/// Fills architectures, wrapper and model_type. The class names decide, the outer ones first; model_type where they say nothing.
Result<const Family*> identify(const Json& root, ModelConfig& out) {
  const ConfigReader outer(root, out.source);
  const ConfigReader inner = out.reader();
  LAMINA_ASSIGN(const std::vector<std::string> outer_names, read_architectures(outer));
  LAMINA_ASSIGN(const std::vector<std::string> inner_names, read_architectures(inner));
  LAMINA_ASSIGN(out.model_type, inner.value_or<std::string>({"model_type"}, ""));
  const bool wrapped = root.find("text_config") != nullptr && root.find("text_config")->is_object();
  out.architectures = outer_names;
  const Family* family = first_family(outer_names);
  if (family == nullptr && wrapped) {
    out.wrapper = outer_names.empty() ? "" : outer_names.front();
    out.architectures = inner_names;
    family = first_family(inner_names);
  }
  if (family == nullptr) {
    family = family_of_model_type(out.model_type);
    if (family != nullptr && out.architectures.empty()) out.architectures = {causal_architecture(*family)};
  }
  if (family != nullptr) {
    if (out.model_type.empty()) out.model_type = family->model_type;
    return family;
  }
  const std::string known = join(known_architectures(), ", ");
  if (outer_names.empty() && out.model_type.empty()) {
    return error(out.source, ": required key \"architectures\" is missing; supported: ", known);
  }
  return error(out.source, ": architecture ", join(outer_names, ", "), " (model_type \"", out.model_type,
               "\") is not supported; supported: ", known);
}

Result<bool> resolve_bias(const ConfigReader& reader, const BiasRule& rule) {
  bool on = rule.always;
  for (std::string_view key : rule.keys) {
    if (key.empty()) continue;
    LAMINA_ASSIGN(const bool flag, reader.value_or<bool>({key}, false));
    on = on || flag;
  }
  return on;
}

Status read_heads(const ConfigReader& reader, const Family& family, ModelConfig& out) {
  LAMINA_ASSIGN(out.num_attention_heads, reader.required_in({"num_attention_heads"}, 1, kMaxWidth));
  LAMINA_ASSIGN(const std::optional<int64_t> kv_heads, reader.optional_in({"num_key_value_heads"}, 1, kMaxWidth));
  out.num_key_value_heads = kv_heads.value_or(out.num_attention_heads);
  if (out.num_attention_heads % out.num_key_value_heads != 0) {
    return reader.fault("num_key_value_heads",
                        cat("is ", out.num_key_value_heads, ", which does not divide num_attention_heads (", out.num_attention_heads, ")"));
  }
  LAMINA_ASSIGN(const std::optional<int64_t> head_dim, reader.optional_in({"head_dim"}, 1, kMaxWidth));
  if (head_dim) {
    out.head_dim = *head_dim;
  } else if (family.head_dim > 0 && reader.json().find("head_dim") == nullptr) {
    out.head_dim = family.head_dim;
  } else if (out.hidden_size % out.num_attention_heads == 0) {
    out.head_dim = out.hidden_size / out.num_attention_heads;
  } else {
    return reader.fault("num_attention_heads", cat("is ", out.num_attention_heads, ", which does not divide hidden_size (", out.hidden_size,
                                                   "), and there is no head_dim"));
  }
  if (out.num_attention_heads * out.head_dim > kMaxWidth) {
    return reader.fault("head_dim",
                        cat("times num_attention_heads is ", out.num_attention_heads * out.head_dim, ", allowed are 1 to ", kMaxWidth));
  }
  return {};
}

Status read_sizes(const ConfigReader& reader, const Family& family, ModelConfig& out) {
  LAMINA_ASSIGN(out.hidden_size, reader.required_in({"hidden_size"}, 1, kMaxWidth));
  LAMINA_ASSIGN(out.intermediate_size, reader.required_in({"intermediate_size"}, 1, kMaxInner));
  LAMINA_ASSIGN(out.num_hidden_layers, reader.required_in({"num_hidden_layers"}, 1, kMaxLayers));
  LAMINA_ASSIGN(out.vocab_size, reader.required_in({"vocab_size"}, 1, kMaxVocab));
  LAMINA_TRY(read_heads(reader, family, out));
  LAMINA_ASSIGN(const std::optional<int64_t> positions, reader.optional_in({"max_position_embeddings"}, 1, kMaxPositions));
  out.max_position_embeddings = positions.value_or(family.max_position_embeddings);
  LAMINA_ASSIGN(out.rms_norm_eps, reader.value_or<double>({"rms_norm_eps"}, family.rms_norm_eps));
  if (!(out.rms_norm_eps >= 0 && out.rms_norm_eps < 1)) {
    return reader.fault("rms_norm_eps", cat("is ", out.rms_norm_eps, ", allowed are 0 to 1"));
  }
  return {};
}

Status read_flags(const ConfigReader& reader, const Family& family, ModelConfig& out) {
  LAMINA_ASSIGN(out.hidden_act, reader.value_or<std::string>({"hidden_act", "hidden_activation"}, "silu"));
  if (out.hidden_act != "silu") return reader.fault("hidden_act", cat("is \"", out.hidden_act, "\", supported: silu"));
  for (std::string_view key : kRefusedKeys) {
    if (const Json* value = reader.find({key})) return reader.fault(key, cat("is ", brief(*value), "; only null is supported"));
  }
  LAMINA_ASSIGN(out.tie_word_embeddings, reader.value_or<bool>({"tie_word_embeddings"}, family.tie_word_embeddings));
  LAMINA_ASSIGN(out.qkv_bias, resolve_bias(reader, family.qkv_bias));
  LAMINA_ASSIGN(out.o_bias, resolve_bias(reader, family.o_bias));
  LAMINA_ASSIGN(out.mlp_bias, resolve_bias(reader, family.mlp_bias));
  LAMINA_ASSIGN(const std::optional<std::string> dtype, reader.optional<std::string>({"dtype", "torch_dtype"}));
  if (dtype) {
    const std::string_view prefix = "torch.";
    const Result<DType> parsed = parse_torch_dtype(dtype->starts_with(prefix) ? dtype->substr(prefix.size()) : *dtype);
    const bool computed = parsed.ok() && (*parsed == DType::kF32 || *parsed == DType::kF16 || *parsed == DType::kBF16);
    if (!computed) {
      return reader.fault(reader.has({"dtype"}) ? "dtype" : "torch_dtype",
                          cat("is \"", *dtype, "\", supported: float32, float16, bfloat16"));
    }
    out.dtype = *parsed;
  }
  return {};
}

/// layer_types of the config, or what the family's rule makes of sliding_window; `window` is the window of sliding layers, 0: none.
Result<std::vector<std::string>> read_layer_types(const ConfigReader& reader, const Family& family, const ModelConfig& config,
                                                  int64_t window) {
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  LAMINA_ASSIGN(std::optional<std::vector<std::string>> given, reader.optional<std::vector<std::string>>({"layer_types"}));
  if (given) {
    if (given->size() != layers) {
      return reader.fault("layer_types", cat("has ", given->size(), " entries, wanted one for each of ", layers, " layers"));
    }
    for (const std::string& type : *given) {
      if (type != kFull && type != kSliding) {
        return reader.fault("layer_types", cat("holds \"", type, "\", supported: ", kFull, ", ", kSliding));
      }
    }
    return std::move(*given);
  }
  LAMINA_ASSIGN(const std::optional<int64_t> above, reader.optional_in({"max_window_layers"}, 0, kMaxLayers));
  size_t first = layers;  // the first layer that slides
  if (family.window == WindowRule::kAll) first = 0;
  if (family.window == WindowRule::kFromMaxWindowLayers) first = static_cast<size_t>(above.value_or(family.max_window_layers));
  std::vector<std::string> types;
  for (size_t i = 0; i < layers; ++i) types.emplace_back(window > 0 && i >= first ? kSliding : kFull);
  return types;
}

/// The window of sliding layers; 0: none. Absent is the family's default, null is none.
Result<int64_t> read_window(const ConfigReader& reader, const Family& family) {
  LAMINA_ASSIGN(const std::optional<int64_t> given, reader.optional_in({"sliding_window"}, 1, kMaxPositions));
  const bool by_default = family.window != WindowRule::kFromMaxWindowLayers;
  LAMINA_ASSIGN(const bool used, reader.value_or<bool>({"use_sliding_window"}, by_default));
  if (!used) return int64_t{0};
  if (given) return *given;
  return reader.json().find("sliding_window") == nullptr ? family.sliding_window : int64_t{0};
}

/// Windows and ropes of every layer; both follow the layer's type.
Status read_layers(const ConfigReader& reader, const Family& family, ModelConfig& out) {
  LAMINA_ASSIGN(const int64_t window, read_window(reader, family));
  LAMINA_ASSIGN(const std::vector<std::string> types, read_layer_types(reader, family, out, window));
  const RopeContext context{
      .head_dim = out.head_dim, .max_position_embeddings = out.max_position_embeddings, .default_theta = family.rope_theta};
  LAMINA_ASSIGN(const auto ropes, parse_rope(reader, context));
  for (const std::string& type : types) {
    out.layer_windows.push_back(type == kSliding ? window : 0);
    const auto found = ropes.contains("") ? ropes.find("") : ropes.find(type);
    if (found == ropes.end()) return reader.fault("rope_parameters", cat("has no entry for the layer type \"", type, "\""));
    auto known = std::ranges::find(out.ropes, found->second);
    if (known == out.ropes.end()) known = out.ropes.insert(known, found->second);
    out.layer_ropes.push_back(static_cast<int>(known - out.ropes.begin()));
  }
  return {};
}

}  // namespace

Result<std::vector<int32_t>> read_token_ids(const ConfigReader& reader, std::string_view key) {
  const Json* value = reader.find({key});
  std::vector<int64_t> ids;
  if (value != nullptr && value->is_array()) {
    LAMINA_ASSIGN(ids, reader.required<std::vector<int64_t>>({key}));
  } else if (value != nullptr) {
    if (!value->is_integer()) {
      return reader.fault(key, cat("is ", value->kind_name(), " (", brief(*value), "), wanted an integer or an array of integers"));
    }
    ids.push_back(value->as_integer());
  }
  std::vector<int32_t> out;
  for (int64_t id : ids) {
    if (id > std::numeric_limits<int32_t>::max()) return reader.fault(key, cat("holds ", id, ", which is no token id"));
    if (id >= 0) out.push_back(static_cast<int32_t>(id));  // -1 is an old way to say none
  }
  return out;
}

int64_t ModelConfig::context_length() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const RopeConfig& rope : ropes) least = std::min(least, rope.context_length());
  return least;
}

const Json* ModelConfig::quantization_config() const { return reader().find({"quantization_config", "compression_config"}); }

Result<ModelConfig> parse_model_config(const Json& root, std::string_view what) {
  if (!root.is_object()) return error(what, ": is ", root.kind_name(), ", wanted an object");
  ModelConfig out;
  out.source = what;
  out.raw = language_model_object(root);
  LAMINA_ASSIGN(const Family* family, identify(root, out));
  const ConfigReader reader = out.reader();
  LAMINA_TRY(read_sizes(reader, *family, out));
  LAMINA_TRY(read_flags(reader, *family, out));
  LAMINA_TRY(read_layers(reader, *family, out));
  LAMINA_ASSIGN(out.bos_token_ids, read_token_ids(reader, "bos_token_id"));
  LAMINA_ASSIGN(out.eos_token_ids, read_token_ids(reader, "eos_token_id"));
  LAMINA_ASSIGN(const std::vector<int32_t> pad, read_token_ids(reader, "pad_token_id"));
  if (!pad.empty()) out.pad_token_id = pad.front();
  return out;
}

Result<Json> read_json_object(const std::string& path) {
  LAMINA_ASSIGN(const std::string text, read_file(path));
  LAMINA_TRY(refuse_lfs_pointer(text, path));
  if (text.empty()) return error(path, " is empty");
  LAMINA_ASSIGN(Json root, parse_json(text, path));
  if (!root.is_object()) return error(path, ": is ", root.kind_name(), ", wanted an object");
  return root;
}

Result<ModelConfig> load_model_config(const std::string& folder, std::string_view overrides) {
  if (!is_directory(folder)) return error("'", folder, "' is not a folder; a checkpoint folder holds config.json and *.safetensors");
  const std::string path = folder + "/config.json";
  if (!file_exists(path)) return error(path, " is missing or not readable");
  LAMINA_ASSIGN(Json root, read_json_object(path));
  if (!overrides.empty()) {
    const std::string_view flag = "--json-model-override-args";
    LAMINA_ASSIGN(const Json patch, parse_json(overrides, flag));
    if (!patch.is_object()) return error(flag, " is ", patch.kind_name(), " (", brief(patch), "), wanted an object");
    merge_json(root, patch);
  }
  return parse_model_config(root, path);
}

}  // namespace lamina
