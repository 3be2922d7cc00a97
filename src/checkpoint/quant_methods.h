#pragma once
// The methods a quantisation block can name; used by quant_config.cc alone.

#include "checkpoint/quant_config.h"

namespace lamina {

/// Recognises the method and reads its keys; an unknown method lists the known ones.
Result<QuantConfig::Parts> read_quant_method(const ConfigReader& reader);

/// compressed-tensors: config_groups, ignore, format, kv_cache_scheme.
Result<QuantConfig::Parts> read_compressed_tensors(const ConfigReader& reader);

/// "re:..." is a regular expression, "Linear" and "Embedding" are classes, anything else a whole name.
ModulePattern tagged_pattern(const std::string& text);

}  // namespace lamina
