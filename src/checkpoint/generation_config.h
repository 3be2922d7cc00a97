#pragma once
// generation_config.json: what ends a sequence, and the sampling defaults its makers suggest.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"

namespace lamina {

struct GenerationConfig {
  std::vector<int32_t> bos_token_ids;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> pad_token_id;
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // >= 0
  std::optional<int64_t> top_k;              // 0 and -1: all
  std::optional<double> top_p;               // (0, 1]
  std::optional<double> min_p;               // [0, 1]
  std::optional<double> repetition_penalty;  // > 0
};

/// Reads `folder`/generation_config.json; all empty when there is none. Errors name file, key, value and what is allowed.
Result<GenerationConfig> load_generation_config(const std::string& folder);

/// The ids that end a sequence: all of generation_config.json when it names any, else those of config.json (as transformers' generate).
std::vector<int32_t> stop_token_ids(const ModelConfig& config, const GenerationConfig& generation);

/// The sampling that the file suggests: "temperature 0.6, top_p 0.9"; empty when it suggests none.
std::string suggested_sampling(const GenerationConfig& generation);

}  // namespace lamina
