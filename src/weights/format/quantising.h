#pragma once
// Layers that quantise a plain checkpoint's tensors while they are loaded.

#include <string>

#include "kernels/quantise_weights.h"
#include "weights/format/coded.h"

namespace lamina {

/// How weights become codes of `scheme`, one of checkpoint/quant_presets.h: scales of int4 in bf16, of 8 bits in f32.
kernels::WeightQuant quantising_rule(const QuantScheme& scheme);

/// Rows [row, row + count) and columns [col, col + cols) of `source`, which is F32, F16 or BF16, as f32: out [count, cols].
void widen_rows(const SourceRows& source, int64_t row, int64_t count, int64_t col, int64_t cols, float* out);

/// Like create_coded, of one parameter, "<name>.weight", whose store reads whole rows of plain tensors: a scale is the same however
/// columns are cut over ranks. `kernels` outlives the store. Memory beside the codes: a few rows a thread.
Result<std::unique_ptr<LinearWeights>> create_quantising(const LinearShape& shape, const QuantScheme& scheme, const PublishedLayout& layout,
                                                         const CodedOptions& options, const kernels::Kernels& kernels, ParamList& params);

/// The module `own`, a part of the layer `fused` or that itself, by all the names that a config may give it.
QuantConfig::Module quant_module(const std::string& own, const std::string& fused);

/// An error that begins with `flag` and names the first of `patterns` that matches no module which owns one of `params`.
Status check_matched(const std::vector<ModulePattern>& patterns, const ParamList& params, std::string_view flag);

}  // namespace lamina
