#pragma once
// Quantisations that lamina makes itself, of a plain checkpoint: while loading it (`--quantization`) or to write it down (`lamina
// quantize`).

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/quant_config.h"

namespace lamina {

/// What a user asks for, and the flags that errors name.
struct QuantiseRequest {
  std::string scheme;      // int8 | int4 | fp8
  int64_t group_size = 0;  // int4: 32 or 128 inputs that share a scale; 0: 32
  std::string ignore;      // module patterns as in compressed-tensors' `ignore`, separated by commas: whole names, or "re:" and a regular
                           // expression
  std::string_view scheme_flag = "--quantization";
  std::string_view group_size_flag = "--quantization-group-size";
  std::string_view ignore_flag = "--quantization-ignore";
};

/// The scheme of every module that is not ignored, heads and embeddings included, and the patterns of the others.
///   int8  rows of int8 with a scale each; inputs int8, a scale a row
///   int4  four bits packed as compressed-tensors does, symmetric, a scale a group; inputs int8, a scale a row
///   fp8   rows of E4M3 with a scale each; inputs E4M3, a scale a row
struct QuantisePreset {
  QuantScheme scheme;
  std::vector<ModulePattern> ignore;
};
/// An error names the flag, the value and what is allowed.
Result<QuantisePreset> quantise_preset(const QuantiseRequest& request);

/// The preset as if a checkpoint said it. Its source, for messages, is the flag.
Result<QuantConfig> quantising_config(const QuantiseRequest& request);

}  // namespace lamina
