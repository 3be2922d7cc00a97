#pragma once
// The other way round: the quantization_config of a checkpoint that this program writes.

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/quant_config.h"

namespace lamina {

/// A compressed-tensors block: every Linear and Embedding by `scheme` but those in `ignore`. CHECK: `scheme` is int8 or fp8 with a scale a
/// row, or packed 4 bit symmetric in groups; inputs are plain or have computed scales of whole rows. parse_quant_config reads it back.
Json compressed_tensors_block(const QuantScheme& scheme, const std::vector<std::string>& ignore);

}  // namespace lamina
