#include "checkpoint/quant_methods.h"

#include <algorithm>

#include "base/strings.h"

namespace lamina {

namespace {

using Kind = ModulePattern::Kind;
using Layout = QuantScheme::Layout;
constexpr int64_t kMostGroup = int64_t{1} << 24;

const ModulePattern kEveryLinear{Kind::kClass, "Linear"};

/// An error unless `value` is one of `allowed`.
template <class T>
Status one_of(const ConfigReader& reader, std::string_view key, const T& value, std::initializer_list<T> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
  std::vector<std::string> names;
  for (const T& a : allowed) names.push_back(cat(a));
  return reader.fault(key, cat("is ", value, ", supported: ", join(names, ", ")));
}

/// Modules left plain: names as runs of components, or globs.
Result<std::optional<QuantConfig::Rule>> plain_rule(const ConfigReader& reader, ConfigReader::Keys keys) {
  LAMINA_ASSIGN(const std::optional<std::vector<std::string>> names, reader.optional<std::vector<std::string>>(keys));
  if (!names || names->empty()) return std::optional<QuantConfig::Rule>{};
  QuantConfig::Rule rule;
  for (const std::string& name : *names) {
    const bool glob = name.find('*') != std::string::npos;
    size_t begin = 0, end = name.size();
    while (begin < end && name[begin] == '.') ++begin;
    while (end > begin && name[end - 1] == '.') --end;
    if (name.starts_with("re:")) {
      rule.targets.push_back({Kind::kRegex, name.substr(3)});
    } else if (end > begin) {
      rule.targets.push_back({glob ? Kind::kGlob : Kind::kComponents, name.substr(begin, end - begin)});
    }
  }
  return std::optional<QuantConfig::Rule>(std::move(rule));
}

Result<QuantConfig::Parts> with_plain(const ConfigReader& reader, std::string method, const QuantScheme& scheme, ConfigReader::Keys keys) {
  QuantConfig::Parts out{.method = std::move(method), .source = "", .rules = {}};
  LAMINA_ASSIGN(std::optional<QuantConfig::Rule> plain, plain_rule(reader, keys));
  if (plain) out.rules.push_back(std::move(*plain));
  out.rules.push_back({{kEveryLinear}, scheme});
  return out;
}

/// weight_block_size [n, k]; nothing when absent.
Status read_block(const ConfigReader& reader, QuantScheme& scheme) {
  LAMINA_ASSIGN(const std::optional<std::vector<int64_t>> block, reader.optional<std::vector<int64_t>>({"weight_block_size"}));
  if (!block) return {};
  const bool sound = block->size() == 2 && (*block)[0] >= 1 && (*block)[1] >= 1 && (*block)[0] <= kMostGroup && (*block)[1] <= kMostGroup;
  if (!sound)
    return reader.fault("weight_block_size", cat("is ", brief(*reader.find({"weight_block_size"})), ", wanted two sizes [out, in]"));
  scheme.scale_rows = (*block)[0];
  scheme.scale_cols = (*block)[1];
  return {};
}

Result<QuantConfig::Parts> read_fp8(const ConfigReader& reader, const std::string& method) {
  QuantScheme scheme{.layout = Layout::kFp8, .bits = 8, .scale_rows = 0};
  LAMINA_TRY(read_block(reader, scheme));
  LAMINA_ASSIGN(const std::string scheme_name, reader.value_or<std::string>({"activation_scheme"}, "dynamic"));
  LAMINA_TRY(one_of<std::string>(reader, "activation_scheme", scheme_name, {"static", "dynamic"}));
  LAMINA_ASSIGN(const std::string fmt, reader.value_or<std::string>({"fmt"}, "e4m3"));
  LAMINA_TRY(one_of<std::string>(reader, "fmt", fmt, {"e4m3"}));
  LAMINA_ASSIGN(const std::string scale_fmt, reader.value_or<std::string>({"scale_fmt"}, "float"));
  LAMINA_TRY(one_of<std::string>(reader, "scale_fmt", scale_fmt, {"float", "float32", "ue8m0"}));
  const bool mx = method == "mxfp8";
  if (mx && scheme.scale_rows == 0) scheme.scale_rows = 1, scheme.scale_cols = 32;
  if (mx && (scheme.scale_rows != 1 || scheme.scale_cols != 32)) {
    return reader.fault("weight_block_size", cat("is [", scheme.scale_rows, ",", scheme.scale_cols, "], MXFP8 has [1,32]"));
  }
  const bool blocks = scheme.scale_rows > 0;
  if (blocks && scheme_name == "static") return reader.fault("activation_scheme", "is \"static\", which blocks of weights do not go with");
  if (mx) scheme.scale = QuantScheme::Scale::kE8m0;
  scheme.input = {.type = InputQuant::Type::kFp8E4m3,
                  .from_checkpoint = scheme_name == "static",
                  .run = blocks ? scheme.scale_cols : 0,
                  .power_of_two = mx || scale_fmt == "ue8m0"};
  return with_plain(reader, method, scheme, {"ignored_layers", "modules_to_not_convert"});
}

struct GptqKeys {
  int64_t bits = 4, group_size = 128;
  bool desc_act = false, sym = true;
};

Result<GptqKeys> read_gptq_keys(const ConfigReader& reader, const GptqKeys& before) {
  GptqKeys out;
  LAMINA_ASSIGN(out.bits, reader.value_or<int64_t>({"bits"}, before.bits));
  LAMINA_TRY(one_of<int64_t>(reader, "bits", out.bits, {2, 3, 4, 8}));
  LAMINA_ASSIGN(out.group_size, reader.value_or<int64_t>({"group_size"}, before.group_size));
  if (out.group_size != -1 && (out.group_size < 1 || out.group_size > kMostGroup)) {
    return reader.fault("group_size", cat("is ", out.group_size, ", allowed are -1 (all inputs) and 1 to ", kMostGroup));
  }
  LAMINA_ASSIGN(out.desc_act, reader.value_or<bool>({"desc_act"}, before.desc_act));
  LAMINA_ASSIGN(out.sym, reader.value_or<bool>({"sym"}, before.sym));
  return out;
}

QuantScheme gptq_scheme(const GptqKeys& keys, bool v1) {
  return {.layout = Layout::kGptq,
          .bits = static_cast<int>(keys.bits),
          .scale_rows = 1,
          .scale_cols = std::max<int64_t>(0, keys.group_size),
          .symmetric = keys.sym,
          .act_order = keys.desc_act,
          .zero_is_less_one = v1};
}

/// GPTQModel's "dynamic": regular expressions, "-:" leaves a module plain, "+:" or nothing changes keys of it. The first match counts.
Status read_dynamic(const ConfigReader& reader, const GptqKeys& keys, bool v1, std::vector<QuantConfig::Rule>& rules) {
  LAMINA_ASSIGN(const std::optional<ConfigReader> dynamic, reader.object({"dynamic"}));
  if (!dynamic) return {};
  for (const auto& [pattern, overrides] : dynamic->json().as_object()) {
    const bool plain = pattern.starts_with("-:");
    const bool marked = plain || pattern.starts_with("+:");
    QuantConfig::Rule rule{{{Kind::kRegex, marked ? pattern.substr(2) : pattern}}, std::nullopt};
    if (!plain) {
      if (!overrides.is_object()) return dynamic->fault(pattern, cat("is ", overrides.kind_name(), ", wanted an object"));
      LAMINA_ASSIGN(const std::optional<ConfigReader> inner, dynamic->object({pattern}));
      LAMINA_ASSIGN(const GptqKeys changed, read_gptq_keys(*inner, keys));
      rule.scheme = gptq_scheme(changed, v1);
    }
    rules.push_back(std::move(rule));
  }
  return {};
}

Result<QuantConfig::Parts> read_gptq(const ConfigReader& reader) {
  QuantConfig::Parts out{.method = "gptq", .source = "", .rules = {}};
  LAMINA_ASSIGN(const int64_t bits, reader.required<int64_t>({"bits"}));
  LAMINA_ASSIGN(const int64_t group_size, reader.required<int64_t>({"group_size"}));
  LAMINA_ASSIGN(const GptqKeys keys, read_gptq_keys(reader, {.bits = bits, .group_size = group_size}));
  LAMINA_ASSIGN(const std::string format, reader.value_or<std::string>({"checkpoint_format"}, "gptq"));
  LAMINA_TRY(one_of<std::string>(reader, "checkpoint_format", format, {"gptq", "gptq_v2"}));
  const bool v1 = format == "gptq";
  LAMINA_TRY(read_dynamic(reader, keys, v1, out.rules));
  LAMINA_ASSIGN(std::optional<QuantConfig::Rule> plain, plain_rule(reader, {"modules_to_not_convert"}));
  if (plain) out.rules.push_back(std::move(*plain));
  LAMINA_ASSIGN(const bool head, reader.value_or<bool>({"lm_head"}, false));
  if (head) out.rules.push_back({{{Kind::kExact, "lm_head"}}, gptq_scheme(keys, v1)});
  out.rules.push_back({{kEveryLinear}, gptq_scheme(keys, v1)});
  return out;
}

Result<QuantConfig::Parts> read_awq(const ConfigReader& reader) {
  LAMINA_ASSIGN(const int64_t bits, reader.required<int64_t>({"bits", "w_bit"}));
  LAMINA_TRY(one_of<int64_t>(reader, reader.has({"bits"}) ? "bits" : "w_bit", bits, {4}));
  LAMINA_ASSIGN(const int64_t group, reader.required<int64_t>({"group_size", "q_group_size"}));
  if (group != -1 && (group < 1 || group > kMostGroup)) {
    return reader.fault("group_size", cat("is ", group, ", allowed are -1 (all inputs) and 1 to ", kMostGroup));
  }
  LAMINA_ASSIGN(std::string version, reader.value_or<std::string>({"version"}, "gemm"));
  std::ranges::transform(version, version.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  LAMINA_TRY(one_of<std::string>(reader, "version", version, {"gemm"}));
  LAMINA_ASSIGN(const bool zeros, reader.value_or<bool>({"zero_point"}, true));
  if (!zeros) return reader.fault("zero_point", "is false, supported: true");
  return with_plain(reader, "awq",
                    {.layout = Layout::kAwq, .bits = 4, .scale_rows = 1, .scale_cols = std::max<int64_t>(0, group), .symmetric = false},
                    {"modules_to_not_convert"});
}

Result<QuantConfig::Parts> read_modelopt(const ConfigReader& reader) {
  LAMINA_ASSIGN(const std::string algorithm, reader.required<std::string>({"quant_algo"}));
  LAMINA_TRY(one_of<std::string>(reader, "quant_algo", algorithm, {"FP8", "NVFP4"}));
  QuantScheme scheme{.layout = Layout::kFp8, .bits = 8, .scale_rows = 0, .modelopt = true};
  if (algorithm == "NVFP4") {
    scheme = {.layout = Layout::kFp4, .bits = 4, .scale_rows = 1, .scale_cols = 16, .scale = QuantScheme::Scale::kE4m3, .modelopt = true};
    LAMINA_ASSIGN(const int64_t group, reader.value_or<int64_t>({"group_size"}, 16));
    LAMINA_TRY(one_of<int64_t>(reader, "group_size", group, {16}));
  } else {
    scheme.input = {.type = InputQuant::Type::kFp8E4m3, .from_checkpoint = true};
  }
  LAMINA_ASSIGN(QuantConfig::Parts out, with_plain(reader, "modelopt", scheme, {"exclude_modules", "ignore"}));
  LAMINA_ASSIGN(const std::string kv, reader.value_or<std::string>({"kv_cache_quant_algo"}, ""));
  if (!kv.empty()) LAMINA_TRY(one_of<std::string>(reader, "kv_cache_quant_algo", kv, {"FP8"}));
  out.fp8_kv_cache = !kv.empty();
  return out;
}

}  // namespace

ModulePattern tagged_pattern(const std::string& text) {
  if (text.starts_with("re:")) return {Kind::kRegex, text.substr(3)};
  if (text == "Linear" || text == "Embedding") return {Kind::kClass, text};
  return {Kind::kExact, text};
}

Result<QuantConfig::Parts> read_quant_method(const ConfigReader& reader) {
  LAMINA_ASSIGN(std::string method, reader.value_or<std::string>({"quant_method"}, ""));
  if (method.empty() && reader.has({"quant_algo"})) method = "modelopt";
  if (method.empty() && reader.has({"config_groups"})) method = "compressed-tensors";
  if (method.empty() && reader.has({"bits"})) method = reader.has({"zero_point"}) ? "awq" : "gptq";
  if (method.empty() && reader.has({"w_bit"})) method = "awq";
  if (method == "fp8" || method == "mxfp8") return read_fp8(reader, method);
  if (method == "gptq") return read_gptq(reader);
  if (method == "awq") return read_awq(reader);
  if (method == "modelopt" || method == "modelopt_fp4") return read_modelopt(reader);
  if (method == "compressed-tensors") return read_compressed_tensors(reader);
  static constexpr std::string_view kKnown = "fp8, mxfp8, gptq, awq, compressed-tensors, modelopt";
  if (method.empty()) return reader.fault("quant_method", cat("is missing; supported: ", kKnown));
  return reader.fault("quant_method", cat("is \"", method, "\": this way to quantise checkpoints is not supported; supported: ", kKnown));
}

}  // namespace lamina
