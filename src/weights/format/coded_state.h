#pragma once
// The matrices of one layer of codes while its stores fill them and its LinearWeights reads them.

#include <string>
#include <vector>

#include "weights/format/coded.h"

namespace lamina {

/// Rows with one matrix of their own: all of a layer, or one part where the parts' inputs differ (in order or in scale).
struct CodedSection {
  int64_t row_begin = 0;  // local
  int64_t rows = 0;
  kernels::CodedMatrix matrix;
  std::vector<int32_t> run_end;
  std::vector<int32_t> order;      // column i of the matrix is input order[i]; empty: as they come
  std::vector<int32_t> run_units;  // run r: this unit of the scales' columns
  float input_scale = 1.0F;
};

/// Shared by the stores of a layer (in the ParamList) and its LinearWeights (in the layer): whoever of them lives longest frees it.
struct CodedState {
  std::string name;  // of the layer
  QuantScheme scheme;
  PublishedLayout layout;
  CodedOptions options;
  ShardDim col_dim;
  ShardCut cols;
  std::vector<ParamPart> parts;
  std::vector<size_t> section_of_part;
  std::vector<CodedSection> sections;

  int64_t local_rows() const { return sections.back().row_begin + sections.back().rows; }
  CodedSection& section_of(int part) { return sections[section_of_part[static_cast<size_t>(part)]]; }
  int64_t groups() const { return DiskDim::blocks(DiskDim::Axis::kCols, scheme.scale_cols).units(0, col_dim.on_disk().value).count; }
};

/// Sections, runs and orders for a layer whose groups follow each other; act_order layers get theirs from set_groups. An error when the cut
/// does not work out.
Result<std::shared_ptr<CodedState>> make_coded_state(const LinearShape& shape, const QuantScheme& scheme, const PublishedLayout& layout,
                                                     const CodedOptions& options);

/// Sorts the local inputs of a section by group: one run a group that has any. `groups` [local cols], each below state.groups().
void set_groups(CodedSection& section, const std::vector<int32_t>& groups);

/// Bytes that the codes of a section may take, whatever the order of its inputs.
size_t most_code_bytes(const CodedState& state, const CodedSection& section);

/// What a matmul takes of the rank's scratch memory.
size_t scratch_bytes(const CodedState& state);

/// The LinearWeights over a state.
std::unique_ptr<LinearWeights> make_coded_weights(std::shared_ptr<const CodedState> state);

// The stores, one a published tensor.
std::unique_ptr<ParamStore> make_codes_store(std::shared_ptr<CodedState> state);
std::unique_ptr<ParamStore> make_scales_store(std::shared_ptr<CodedState> state);
std::unique_ptr<ParamStore> make_zeros_store(std::shared_ptr<CodedState> state);
std::unique_ptr<ParamStore> make_index_store(std::shared_ptr<CodedState> state);
std::unique_ptr<ParamStore> make_shape_store(std::shared_ptr<CodedState> state);
std::unique_ptr<ParamStore> make_global_scale_store(std::shared_ptr<CodedState> state);
std::unique_ptr<ParamStore> make_input_scale_store(std::shared_ptr<CodedState> state);

}  // namespace lamina
