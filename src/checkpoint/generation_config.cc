#include "checkpoint/generation_config.h"

#include "base/file.h"
#include "base/strings.h"

namespace lamina {

namespace {

struct Range {
  double low, high;
  bool low_allowed;
};

Result<std::optional<double>> read_number(const ConfigReader& reader, std::string_view key, Range range) {
  LAMINA_ASSIGN(const std::optional<double> value, reader.optional<double>({key}));
  const bool fits = !value || (*value <= range.high && (range.low_allowed ? *value >= range.low : *value > range.low));
  if (!fits) {
    return reader.fault(
        key, cat("is ", *value, ", wanted ", range.low_allowed ? "at least " : "more than ", range.low, " and at most ", range.high));
  }
  return value;
}

}  // namespace

Result<GenerationConfig> load_generation_config(const std::string& folder) {
  GenerationConfig out;
  const std::string path = folder + "/generation_config.json";
  if (!file_exists(path)) return out;
  LAMINA_ASSIGN(const Json root, read_json_object(path));
  const ConfigReader reader(root, path);
  LAMINA_ASSIGN(out.bos_token_ids, read_token_ids(reader, "bos_token_id"));
  LAMINA_ASSIGN(out.eos_token_ids, read_token_ids(reader, "eos_token_id"));
  LAMINA_ASSIGN(const std::vector<int32_t> pad, read_token_ids(reader, "pad_token_id"));
  if (!pad.empty()) out.pad_token_id = pad.front();
  LAMINA_ASSIGN(out.do_sample, reader.optional<bool>({"do_sample"}));
  LAMINA_ASSIGN(out.temperature, read_number(reader, "temperature", {0, 1e6, true}));
  LAMINA_ASSIGN(out.top_k, reader.optional_in({"top_k"}, -1, int64_t{1} << 31));
  LAMINA_ASSIGN(out.top_p, read_number(reader, "top_p", {0, 1, false}));
  LAMINA_ASSIGN(out.min_p, read_number(reader, "min_p", {0, 1, true}));
  LAMINA_ASSIGN(out.repetition_penalty, read_number(reader, "repetition_penalty", {0, 100, false}));
  return out;
}

std::vector<int32_t> stop_token_ids(const ModelConfig& config, const GenerationConfig& generation) {
  return generation.eos_token_ids.empty() ? config.eos_token_ids : generation.eos_token_ids;
}

std::string suggested_sampling(const GenerationConfig& generation) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* name, const auto& value) {
    if (value) parts.push_back(cat(name, " ", *value));
  };
  add("temperature", generation.temperature);
  add("top_k", generation.top_k);
  add("top_p", generation.top_p);
  add("min_p", generation.min_p);
  add("repetition_penalty", generation.repetition_penalty);
  return join(parts, ", ");
}

}  // namespace lamina
