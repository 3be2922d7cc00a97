// compressed-tensors: groups of targets, each with a scheme for weights and one for inputs.

#include "base/strings.h"
#include "checkpoint/quant_methods.h"

namespace lamina {

namespace {

using Layout = QuantScheme::Layout;
constexpr int64_t kMostGroup = int64_t{1} << 24;

/// One "weights" or "input_activations" object.
struct Numbers {
  int64_t bits = 0;
  std::string type;      // "int" | "float"
  std::string strategy;  // "tensor" | "channel" | "token" | "group" | "block" | "tensor_group"
  int64_t group_size = 0;
  int64_t block_rows = 0, block_cols = 0;
  bool symmetric = true;
  bool dynamic = false;
  bool by_group_index = false;  // actorder "group"
};

/// "dynamic" is true, false or "local" (scales of groups are computed, that of the tensor is stored).
Result<bool> read_dynamic(const ConfigReader& reader) {
  const Json* value = reader.find({"dynamic"});
  if (value != nullptr && value->is_string() && value->as_string() == "local") return true;
  return reader.value_or<bool>({"dynamic"}, false);
}

/// block_structure is [128, 128] or "128x128".
Status read_block(const ConfigReader& reader, Numbers& out) {
  const Json* value = reader.find({"block_structure"});
  if (value == nullptr) return {};
  if (value->is_array()) {
    LAMINA_ASSIGN(const std::vector<int64_t> block, reader.required<std::vector<int64_t>>({"block_structure"}));
    if (block.size() == 2) out.block_rows = block[0], out.block_cols = block[1];
  } else if (value->is_string() && std::sscanf(value->as_string().c_str(), "%ldx%ld", &out.block_rows, &out.block_cols) != 2) {
    out.block_rows = 0;
  }
  const bool sound = out.block_rows >= 1 && out.block_cols >= 1 && out.block_rows <= kMostGroup && out.block_cols <= kMostGroup;
  return sound ? Status() : Status(reader.fault("block_structure", cat("is ", brief(*value), ", wanted two sizes [out, in]")));
}

/// actorder: null, false, "weight" and "static" leave groups in order; true, "group" and "dynamic" assign inputs to groups by weight_g_idx.
Status read_act_order(const ConfigReader& reader, Numbers& out) {
  const Json* value = reader.find({"actorder"});
  if (value == nullptr) return {};
  if (value->is_bool()) {
    out.by_group_index = value->as_bool();
    return {};
  }
  const std::string text = value->is_string() ? value->as_string() : "";
  out.by_group_index = text == "group" || text == "dynamic";
  if (out.by_group_index || text == "weight" || text == "static") return {};
  return reader.fault("actorder", cat("is ", brief(*value), ", supported: null, \"weight\", \"group\""));
}

Result<Numbers> read_numbers(const ConfigReader& reader) {
  Numbers out;
  LAMINA_ASSIGN(out.bits, reader.value_or<int64_t>({"num_bits"}, 8));
  LAMINA_ASSIGN(out.type, reader.value_or<std::string>({"type"}, "int"));
  LAMINA_ASSIGN(out.symmetric, reader.value_or<bool>({"symmetric"}, true));
  LAMINA_ASSIGN(out.dynamic, read_dynamic(reader));
  LAMINA_ASSIGN(const int64_t group, reader.value_or<int64_t>({"group_size"}, -1));
  if (group != -1 && (group < 1 || group > kMostGroup)) {
    return reader.fault("group_size", cat("is ", group, ", allowed are -1 (all inputs) and 1 to ", kMostGroup));
  }
  out.group_size = group == -1 ? 0 : group;
  LAMINA_ASSIGN(out.strategy, reader.value_or<std::string>({"strategy"}, group == -1 ? "tensor" : "group"));
  LAMINA_TRY(read_block(reader, out));
  LAMINA_TRY(read_act_order(reader, out));
  return out;
}

Status set_scale_shape(const ConfigReader& reader, const Numbers& weights, QuantScheme& out) {
  if (weights.strategy == "tensor") {
    out.scale_rows = 0;
  } else if (weights.strategy == "group" || weights.strategy == "tensor_group") {
    if (weights.group_size == 0 && weights.strategy == "tensor_group") return reader.fault("group_size", "is missing");
    out.scale_cols = weights.group_size;
  } else if (weights.strategy == "block") {
    if (weights.block_rows == 0) return reader.fault("block_structure", "is missing");
    out.scale_rows = weights.block_rows;
    out.scale_cols = weights.block_cols;
  } else if (weights.strategy != "channel") {
    return reader.fault("strategy", cat("is \"", weights.strategy, "\", supported: tensor, channel, group, block"));
  }
  return {};
}

/// The layout that type, bits and `format` name together.
Status set_layout(const ConfigReader& reader, const Numbers& weights, const std::string& format, QuantScheme& out) {
  out.bits = static_cast<int>(weights.bits);
  const bool naive = format == "naive-quantized" || format.empty();
  if (format == "pack-quantized" && weights.type == "int" && (weights.bits == 4 || weights.bits == 8)) {
    out.layout = Layout::kPacked;
  } else if ((format == "int-quantized" || naive) && weights.type == "int" && weights.bits == 8) {
    out.layout = Layout::kInt8;
    if (!weights.symmetric) return reader.fault("symmetric", "is false: int8 weights with zero points are not supported");
  } else if ((format == "float-quantized" || naive) && weights.type == "float" && weights.bits == 8) {
    out.layout = Layout::kFp8;
  } else if (format.starts_with("mxfp8") && weights.type == "float" && weights.bits == 8) {
    out.layout = Layout::kFp8;
    out.scale = QuantScheme::Scale::kE8m0;
  } else if (format == "mxfp4-pack-quantized" && weights.type == "float" && weights.bits == 4) {
    out.layout = Layout::kFp4;
    out.scale = QuantScheme::Scale::kE8m0;
  } else if (format == "nvfp4-pack-quantized" && weights.type == "float" && weights.bits == 4) {
    out.layout = Layout::kFp4;
    out.scale = QuantScheme::Scale::kE4m3;
  } else {
    return reader.fault("num_bits", cat("is ", weights.bits, " of type \"", weights.type, "\" in format \"", format,
                                        "\"; supported: pack-quantized (int 4, 8), int-quantized (int 8), float-quantized (float 8), "
                                        "mxfp8-quantized, mxfp4-pack-quantized, nvfp4-pack-quantized"));
  }
  const bool wants_32 = out.scale == QuantScheme::Scale::kE8m0;
  if (wants_32 && weights.group_size != 32) return reader.fault("group_size", cat("is ", weights.group_size, ", ", format, " has 32"));
  if (out.scale == QuantScheme::Scale::kE4m3 && weights.group_size != 16) {
    return reader.fault("group_size", cat("is ", weights.group_size, ", ", format, " has 16"));
  }
  if (weights.by_group_index && out.layout != Layout::kPacked) return reader.fault("actorder", "goes with format \"pack-quantized\" only");
  out.symmetric = weights.symmetric;
  out.act_order = weights.by_group_index;
  return {};
}

/// Inputs of 4-bit floats stay plain: the weights alone are what such a checkpoint holds.
Result<InputQuant> input_quant(const ConfigReader& reader, const Numbers& numbers, const QuantScheme& weights) {
  InputQuant out;
  if (weights.layout == Layout::kFp4) return out;
  if (numbers.bits != 8) return reader.fault("num_bits", cat("is ", numbers.bits, ", supported for inputs: 8"));
  if (!numbers.symmetric) return reader.fault("symmetric", "is false: inputs with zero points are not supported");
  if (numbers.type != "int" && numbers.type != "float") {
    return reader.fault("type", cat("is \"", numbers.type, "\", supported: int, float"));
  }
  out.type = numbers.type == "int" ? InputQuant::Type::kInt8 : InputQuant::Type::kFp8E4m3;
  const bool by_float = weights.layout == Layout::kFp8;
  if (by_float != (numbers.type == "float")) return reader.fault("type", cat("is \"", numbers.type, "\", which the weights are not"));
  if (weights.layout == Layout::kPacked && !weights.symmetric && numbers.type == "int" && weights.bits == 8) {
    return reader.fault("num_bits", "is 8 beside packed 8-bit weights with zero points: such products are not supported");
  }
  out.from_checkpoint = !numbers.dynamic;
  if (out.from_checkpoint && weights.layout == Layout::kPacked) {
    return reader.fault("dynamic", "is false: packed weights have no stored scale of inputs");
  }
  if (out.from_checkpoint && numbers.strategy != "tensor") {
    return reader.fault("strategy", cat("is \"", numbers.strategy, "\", supported for stored scales of inputs: tensor"));
  }
  const bool grouped = numbers.strategy == "group" || numbers.strategy == "block" || numbers.strategy == "tensor_group";
  if (!grouped && numbers.strategy != "token" && numbers.strategy != "tensor") {
    return reader.fault("strategy", cat("is \"", numbers.strategy, "\", supported for inputs: tensor, token, group, block, tensor_group"));
  }
  if (out.from_checkpoint || !grouped) return out;
  if (weights.act_order) return reader.fault("strategy", "gives inputs a scale a group, which activation order of the weights forbids");
  out.run = numbers.strategy == "block" ? numbers.block_cols : numbers.group_size;
  out.power_of_two = weights.scale == QuantScheme::Scale::kE8m0;
  if (out.run != weights.scale_cols) {
    return reader.fault("group_size", cat("of the inputs is ", out.run, ", that of the weights ", weights.scale_cols, "; they must agree"));
  }
  return out;
}

Result<QuantScheme> read_scheme(const ConfigReader& group, const std::string& format) {
  LAMINA_ASSIGN(const std::optional<ConfigReader> weights, group.object({"weights"}));
  if (!weights) return group.fault("weights", "is missing");
  QuantScheme out;
  LAMINA_ASSIGN(const Numbers numbers, read_numbers(*weights));
  LAMINA_TRY(set_scale_shape(*weights, numbers, out));
  LAMINA_TRY(set_layout(*weights, numbers, format, out));
  LAMINA_ASSIGN(const std::optional<ConfigReader> inputs, group.object({"input_activations"}));
  if (inputs) {
    LAMINA_ASSIGN(const Numbers input, read_numbers(*inputs));
    LAMINA_ASSIGN(out.input, input_quant(*inputs, input, out));
  }
  if (group.has({"output_activations"})) return group.fault("output_activations", "is not null: rounding outputs is not supported");
  return out;
}

/// Rules of one group: names first, so that a class does not hide another group's names.
Status add_group(const ConfigReader& group, const std::string& format, std::vector<QuantConfig::Rule>& named,
                 std::vector<QuantConfig::Rule>& classes) {
  LAMINA_ASSIGN(const std::vector<std::string> targets, group.required<std::vector<std::string>>({"targets"}));
  LAMINA_ASSIGN(const std::string own_format, group.value_or<std::string>({"format"}, format));
  LAMINA_ASSIGN(const QuantScheme scheme, read_scheme(group, own_format));
  QuantConfig::Rule by_name{{}, scheme}, by_class{{}, scheme};
  for (const std::string& target : targets) {
    ModulePattern pattern = tagged_pattern(target);
    (pattern.kind == ModulePattern::Kind::kClass ? by_class : by_name).targets.push_back(std::move(pattern));
  }
  if (!by_name.targets.empty()) named.push_back(std::move(by_name));
  if (!by_class.targets.empty()) classes.push_back(std::move(by_class));
  return {};
}

Result<bool> read_kv_scheme(const ConfigReader& reader) {
  LAMINA_ASSIGN(const std::optional<ConfigReader> scheme, reader.object({"kv_cache_scheme"}));
  if (!scheme) return false;
  LAMINA_ASSIGN(const Numbers numbers, read_numbers(*scheme));
  if (numbers.bits != 8 || numbers.type != "float") {
    return scheme->fault("num_bits", cat("is ", numbers.bits, " of type \"", numbers.type, "\", supported: 8 of type \"float\""));
  }
  if (numbers.strategy != "tensor" || numbers.dynamic || !numbers.symmetric) {
    return scheme->fault("strategy", "must be \"tensor\", symmetric and not dynamic");
  }
  return true;
}

}  // namespace

Result<QuantConfig::Parts> read_compressed_tensors(const ConfigReader& reader) {
  QuantConfig::Parts out{.method = "compressed-tensors", .source = "", .rules = {}};
  LAMINA_ASSIGN(const std::string format, reader.value_or<std::string>({"format"}, ""));
  LAMINA_ASSIGN(const std::optional<ConfigReader> sparsity, reader.object({"sparsity_config"}));
  if (sparsity) {
    LAMINA_ASSIGN(const std::string kind, sparsity->value_or<std::string>({"format"}, "dense"));
    if (kind != "dense") return sparsity->fault("format", cat("is \"", kind, "\", supported: dense"));
  }
  LAMINA_ASSIGN(const std::optional<ConfigReader> transform, reader.object({"transform_config"}));
  if (transform && !transform->json().as_object().empty()) {
    return reader.fault("transform_config", "is not empty: rotations of inputs are not supported");
  }
  LAMINA_ASSIGN(const std::vector<std::string> ignored, reader.value_or<std::vector<std::string>>({"ignore"}, {}));
  QuantConfig::Rule plain;
  for (const std::string& name : ignored) plain.targets.push_back(tagged_pattern(name));
  if (!plain.targets.empty()) out.rules.push_back(std::move(plain));
  LAMINA_ASSIGN(const std::optional<ConfigReader> groups, reader.object({"config_groups"}));
  if (!groups) return reader.fault("config_groups", "is missing");
  std::vector<QuantConfig::Rule> named, classes;
  for (const auto& member : groups->json().as_object()) {
    LAMINA_ASSIGN(const std::optional<ConfigReader> group, groups->object({member.first}));
    if (!group) return groups->fault(member.first, "is null, wanted an object");
    LAMINA_TRY(add_group(*group, format, named, classes));
  }
  for (auto* rules : {&named, &classes}) out.rules.insert(out.rules.end(), rules->begin(), rules->end());
  LAMINA_ASSIGN(out.fp8_kv_cache, read_kv_scheme(reader));
  return out;
}

}  // namespace lamina
