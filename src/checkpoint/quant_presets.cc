#include "checkpoint/quant_presets.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "checkpoint/quant_methods.h"

namespace lamina {

namespace {

struct Preset {
  const char* name;
  QuantScheme::Layout layout;
  int bits;
  InputQuant::Type input;
};
constexpr std::array<Preset, 3> kPresets = {{
    {"int8", QuantScheme::Layout::kInt8, 8, InputQuant::Type::kInt8},
    {"int4", QuantScheme::Layout::kPacked, 4, InputQuant::Type::kInt8},
    {"fp8", QuantScheme::Layout::kFp8, 8, InputQuant::Type::kFp8E4m3},
}};
constexpr int64_t kGroup = 32;
constexpr int64_t kLargeGroup = 128;

Result<QuantScheme> scheme_of(const QuantiseRequest& request) {
  const auto* const preset = std::ranges::find(kPresets, request.scheme, &Preset::name);
  if (preset == kPresets.end()) return error(request.scheme_flag, " ", request.scheme, ": allowed are int8, int4, fp8");
  QuantScheme out;
  out.layout = preset->layout;
  out.bits = preset->bits;
  out.input.type = preset->input;
  if (preset->bits == 8) {
    if (request.group_size == 0) return out;
    return error(request.group_size_flag, " ", request.group_size, " goes with ", request.scheme_flag, " int4: ", request.scheme,
                 " has a scale a row");
  }
  out.scale_cols = request.group_size == 0 ? kGroup : request.group_size;
  if (out.scale_cols == kGroup || out.scale_cols == kLargeGroup) return out;
  return error(request.group_size_flag, " ", request.group_size, ": allowed are ", kGroup, " and ", kLargeGroup);
}

Result<std::vector<ModulePattern>> patterns_of(const QuantiseRequest& request) {
  std::vector<ModulePattern> out;
  std::string_view rest = request.ignore;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    if (name.empty()) return error(request.ignore_flag, " ", request.ignore, ": holds an empty name");
    out.push_back(tagged_pattern(std::string(name)));
    if (const Status sound = check_pattern(out.back()); !sound.ok()) return error(request.ignore_flag, " ", sound.error().message);
  }
  return out;
}

}  // namespace

Result<QuantisePreset> quantise_preset(const QuantiseRequest& request) {
  QuantisePreset out;
  LAMINA_ASSIGN(out.scheme, scheme_of(request));
  LAMINA_ASSIGN(out.ignore, patterns_of(request));
  return out;
}

Result<QuantConfig> quantising_config(const QuantiseRequest& request) {
  LAMINA_ASSIGN(QuantisePreset preset, quantise_preset(request));
  const bool grouped = preset.scheme.scale_cols > 0;
  QuantConfig::Parts parts{.method = grouped ? cat(request.scheme, " g", preset.scheme.scale_cols) : request.scheme,
                           .source = cat(request.scheme_flag, " ", request.scheme),
                           .rules = {}};
  if (!preset.ignore.empty()) parts.rules.push_back({std::move(preset.ignore), std::nullopt});
  parts.rules.push_back({{{.kind = ModulePattern::Kind::kGlob, .text = "*"}}, preset.scheme});
  return QuantConfig(std::move(parts));
}

}  // namespace lamina
