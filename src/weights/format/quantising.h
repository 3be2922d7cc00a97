#pragma once
// Layers that quantise a plain checkpoint's tensors while they are loaded.

#include <optional>
#include <string>
#include <vector>

#include "kernels/quantise_weights.h"
#include "weights/format/coded.h"

namespace lamina {

/// How weights become codes of `scheme`, one of checkpoint/quant_presets.h: scales of int4 in bf16, of 8 bits in f32.
kernels::WeightQuant quantising_rule(const QuantScheme& scheme);

/// Rows [row, row + count) and columns [col, col + cols) of `source`, which is F32, F16 or BF16, as f32: out [count, cols].
void widen_rows(const SourceRows& source, int64_t row, int64_t count, int64_t col, int64_t cols, float* out);

/// Rows of an F32, F16 or BF16 source as codes and scales, in buffers that every call uses again.
class RowQuantiser {
 public:
  /// For up to `rows` rows of `cols` columns at once.
  RowQuantiser(const kernels::Kernels& kernels, const kernels::WeightQuant& rule, int64_t rows, int64_t cols);
  /// Rows [row, row + count) of `source`, its columns from `col` on. The first of them that holds NaN or an infinity, counted from `row`.
  std::optional<int64_t> quantise(const SourceRows& source, int64_t row, int64_t count, int64_t col);
  /// Of the last call, from its first row on: [rows, cols] and [rows, groups].
  const std::vector<uint8_t>& codes() const { return codes_; }
  const std::vector<float>& scales() const { return scales_; }

 private:
  const kernels::Kernels& kernels_;
  kernels::WeightQuant rule_;
  int64_t cols_;
  std::vector<float> values_, scales_;
  std::vector<uint8_t> codes_;
};

/// Like create_coded, of one parameter, "<name>.weight", whose store reads whole rows of plain tensors: a scale is the same however
/// columns are cut over ranks. `kernels` outlives the store. Memory beside the codes: a few rows a thread.
Result<std::unique_ptr<LinearWeights>> create_quantising(const LinearShape& shape, const QuantScheme& scheme, const PublishedLayout& layout,
                                                         const CodedOptions& options, const kernels::Kernels& kernels, ParamList& params);

/// The module `own`, a part of the layer `fused` or that itself, by all the names that a config may give it.
QuantConfig::Module quant_module(const std::string& own, const std::string& fused);

/// An error that begins with `flag` and names the first of `patterns` that matches no module which owns one of `params`.
Status check_matched(const std::vector<ModulePattern>& patterns, const ParamList& params, std::string_view flag);

}  // namespace lamina
