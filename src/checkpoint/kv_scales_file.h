#pragma once
// The JSON file of --quantization-param-path: one scale a layer for FP8 keys and values, by tensor-parallel rank.

#include <string>
#include <vector>

#include "base/result.h"

namespace lamina {

/// What the file must fit.
struct KvScalesWanted {
  std::string model_type;
  int64_t layers = 0;
  int tp_size = 1;
  int tp_rank = 0;
};

/// The scales of every layer of the model for one rank. Errors name the file, the key and what is wanted: another model_type or dtype than
/// float8_e4m3fn, another number of ranks or layers, an index that is missing or no number, a scale that is not finite and above 0.
Result<std::vector<float>> read_kv_scales_file(const std::string& path, const KvScalesWanted& wanted);

}  // namespace lamina
