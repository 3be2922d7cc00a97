#include "checkpoint/kv_scales_file.h"

#include <cmath>

#include "base/strings.h"
#include "checkpoint/config.h"

namespace lamina {

namespace {

/// The members "0" to "count - 1" of `reader`'s object, which has no others.
Status check_indices(const ConfigReader& reader, const std::string& path, std::string_view what, int64_t count) {
  const auto held = static_cast<int64_t>(reader.json().as_object().size());
  if (held != count) return error(path, ": has scales of ", held, " ", what, ", wanted ", count);
  for (int64_t i = 0; i < count; ++i) {
    const std::string key = cat(i);
    if (!reader.has({key})) return reader.fault(key, cat("is missing: wanted are 0 to ", count - 1));
  }
  return {};
}

Result<std::vector<float>> read_rank(const ConfigReader& layers, const std::string& path, int64_t count) {
  LAMINA_TRY(check_indices(layers, path, "layers", count));
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i) {
    const std::string key = cat(i);
    LAMINA_ASSIGN(const double scale, layers.required<double>({key}));
    const auto value = static_cast<float>(scale);
    if (!std::isfinite(value) || !(value > 0)) return layers.fault(key, cat("is ", scale, ", allowed: finite, above 0"));
    out.push_back(value);
  }
  return out;
}

}  // namespace

Result<std::vector<float>> read_kv_scales_file(const std::string& path, const KvScalesWanted& wanted) {
  LAMINA_ASSIGN(const Json root, read_json_object(path));
  const ConfigReader reader(root, path);
  LAMINA_ASSIGN(const std::string model_type, reader.required<std::string>({"model_type"}));
  if (model_type != wanted.model_type) {
    return reader.fault("model_type", cat("is \"", model_type, "\", the model is \"", wanted.model_type, "\""));
  }
  LAMINA_ASSIGN(const std::optional<ConfigReader> cache, reader.object({"kv_cache"}));
  if (!cache) return reader.fault("kv_cache", "is missing");
  LAMINA_ASSIGN(const std::string dtype, cache->required<std::string>({"dtype"}));
  if (dtype != "float8_e4m3fn") return cache->fault("dtype", cat("is \"", dtype, "\", supported: float8_e4m3fn"));
  LAMINA_ASSIGN(const std::optional<ConfigReader> ranks, cache->object({"scaling_factor"}));
  if (!ranks) return cache->fault("scaling_factor", "is missing");
  LAMINA_TRY(check_indices(*ranks, path, "ranks (--tp-size)", wanted.tp_size));
  std::vector<float> out;
  for (int rank = 0; rank < wanted.tp_size; ++rank) {
    const std::string key = cat(rank);
    LAMINA_ASSIGN(const std::optional<ConfigReader> layers, ranks->object({key}));
    LAMINA_ASSIGN(std::vector<float> scales, read_rank(*layers, path, wanted.layers));
    if (rank == wanted.tp_rank) out = std::move(scales);
  }
  return out;
}

}  // namespace lamina
