#include "checkpoint/quant_config.h"

#include <algorithm>
#include <regex>

#include "base/file.h"
#include "base/strings.h"
#include "checkpoint/quant_methods.h"

namespace lamina {

namespace {

constexpr size_t kLongestPattern = 1000;
// Characters of a pattern times all its counts: std::regex makes a copy of what is repeated for each time.
constexpr size_t kLargestPattern = 10'000;
// The polynomial executor of libstdc++: no pattern of a config can make the start hang.
constexpr auto kRegexFlags = std::regex::ECMAScript | std::regex_constants::__polynomial;

/// Whether `run` is a run of whole components of `name`.
bool has_components(std::string_view name, std::string_view run) {
  if (run.empty()) return false;
  for (size_t at = name.find(run); at != std::string_view::npos; at = name.find(run, at + 1)) {
    const size_t end = at + run.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

/// * stands for any characters.
bool matches_glob(std::string_view name, std::string_view glob) {
  size_t n = 0, g = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++, from = n;
    } else if (g < glob.size() && glob[g] == name[n]) {
      ++g, ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1, n = ++from;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

/// The characters of a regular expression once {n} and {n,m} are written out, nested in one another at worst; capped.
size_t written_out(std::string_view pattern) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t size = pattern.size();
  for (size_t at = pattern.find('{'); at != std::string_view::npos; at = pattern.find('{', at + 1)) {
    size_t most = 1;
    for (size_t i = at + 1, count = 0; i < pattern.size() && (is_digit(pattern[i]) || pattern[i] == ','); ++i) {
      count = pattern[i] == ',' ? 0 : std::min(count * 10 + static_cast<size_t>(pattern[i] - '0'), kLargestPattern + 1);
      most = std::max(most, count);
    }
    size = std::min(size * most, kLargestPattern + 1);
  }
  return size;
}

bool matches_regex(std::string_view name, const std::string& pattern) {
  try {
    const std::regex regex(pattern, kRegexFlags);
    return std::regex_search(name.begin(), name.end(), regex, std::regex_constants::match_continuous);
  } catch (const std::regex_error&) {
    return false;
  }
}

bool matches_name(const ModulePattern& pattern, std::string_view name) {
  switch (pattern.kind) {
    case ModulePattern::Kind::kComponents:
      return has_components(name, pattern.text);
    case ModulePattern::Kind::kExact:
      return name == pattern.text;
    case ModulePattern::Kind::kRegex:
      return matches_regex(name, pattern.text);
    case ModulePattern::Kind::kGlob:
      return matches_glob(name, pattern.text);
    case ModulePattern::Kind::kClass:
      return false;
  }
  return false;
}

}  // namespace

std::string QuantScheme::describe() const {
  static constexpr const char* kNames[] = {"fp8", "int8", "pack-quantized", "gptq", "awq", "fp4"};
  const bool named = layout == Layout::kFp8 || layout == Layout::kInt8 || layout == Layout::kFp4;  // by their bits
  std::string out = cat(kNames[static_cast<size_t>(layout)], named ? "" : cat(" ", bits, " bit"));
  if (scale_rows == 0) return out + ", one scale";
  if (scale_rows > 1) return out + cat(", blocks of ", scale_rows, "x", scale_cols);
  return out + (scale_cols == 0 ? std::string(", a scale a row") : cat(", groups of ", scale_cols, act_order ? " by g_idx" : ""));
}

Status check_pattern(const ModulePattern& pattern) {
  if (pattern.kind != ModulePattern::Kind::kRegex) return {};
  if (pattern.text.size() > kLongestPattern)
    return error("is a pattern of ", pattern.text.size(), " characters, allowed are ", kLongestPattern);
  if (written_out(pattern.text) > kLargestPattern)
    return error("holds the regular expression \"", pattern.text, "\", whose counts make it larger than ", kLargestPattern, " characters");
  try {
    const std::regex regex(pattern.text, kRegexFlags);
  } catch (const std::regex_error&) {
    return error("holds the regular expression \"", pattern.text, "\", which cannot be read");
  }
  return {};
}

bool matches(const ModulePattern& pattern, const QuantConfig::Module& module) {
  if (pattern.kind == ModulePattern::Kind::kClass) {
    if (pattern.text == "Embedding") return module.embedding;
    return pattern.text == "Linear" || (module.embedding && pattern.text == "VocabParallelEmbedding");
  }
  return std::ranges::any_of(module.names, [&](const std::string& name) { return matches_name(pattern, name); });
}

QuantConfig::QuantConfig(Parts parts)
    : method_(std::move(parts.method)),
      source_(std::move(parts.source)),
      rules_(std::move(parts.rules)),
      fp8_kv_cache_(parts.fp8_kv_cache) {}

bool QuantConfig::rounds_inputs() const {
  return std::ranges::any_of(rules_, [](const Rule& rule) { return rule.scheme && rule.scheme->input.type != InputQuant::Type::kNone; });
}

QuantConfig::Decision QuantConfig::decide(const Module& module) const {
  for (const Rule& rule : rules_) {
    for (const ModulePattern& target : rule.targets) {
      if (!matches(target, module)) continue;
      if (!rule.scheme) return {};
      // "Linear" says nothing about an embedding, and most methods say it without looking at the head; GPTQ's "dynamic" names modules by
      // patterns as wide as ".*", and what it did not quantise it leaves as it was.
      const bool by_class = target.kind == ModulePattern::Kind::kClass && target.text == "Linear";
      const bool by_dynamic = target.kind == ModulePattern::Kind::kRegex && method_ == "gptq";
      const bool vague = (by_class || by_dynamic) && (module.embedding || (module.head && method_ != "compressed-tensors"));
      return {vague ? Answer::kUndecided : Answer::kQuantised, &*rule.scheme};
    }
  }
  return {};
}

Result<QuantConfig> parse_quant_config(const Json& block, std::string_view what, std::string_view prefix) {
  if (!block.is_object()) return error(what, ": key \"", prefix, "\" is ", block.kind_name(), ", wanted an object");
  const ConfigReader reader(block, std::string(what), std::string(prefix));
  LAMINA_ASSIGN(QuantConfig::Parts parts, read_quant_method(reader));
  parts.source = what;
  for (const QuantConfig::Rule& rule : parts.rules) {
    for (const ModulePattern& target : rule.targets) {
      if (const Status sound = check_pattern(target); !sound.ok()) return error(what, ": a module pattern ", sound.error().message);
    }
  }
  return QuantConfig(std::move(parts));
}

Result<std::optional<QuantConfig>> load_quant_config(const ModelConfig& config, const std::string& folder) {
  if (const Json* block = config.quantization_config()) {
    const bool outer = config.raw.find("quantization_config") != nullptr && !config.raw.find("quantization_config")->is_null();
    LAMINA_ASSIGN(QuantConfig out, parse_quant_config(*block, config.source, outer ? "quantization_config." : "compression_config."));
    return std::optional<QuantConfig>(std::move(out));
  }
  for (const char* name : {"quantize_config.json", "hf_quant_config.json"}) {
    const std::string path = cat(folder, "/", name);
    if (!file_exists(path)) continue;
    LAMINA_ASSIGN(const Json root, read_json_object(path));
    const Json* inner = root.find("quantization");
    LAMINA_ASSIGN(QuantConfig out, parse_quant_config(inner != nullptr ? *inner : root, path, inner != nullptr ? "quantization." : ""));
    return std::optional<QuantConfig>(std::move(out));
  }
  return std::optional<QuantConfig>{};
}

}  // namespace lamina
