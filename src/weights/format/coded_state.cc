#include "weights/format/coded_state.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"

namespace lamina {

namespace {

using Axis = DiskDim::Axis;

/// Groups that follow each other, counted from the global input index: the first and the last of a shard may be short.
void set_runs(CodedSection& section, const CodedState& state) {
  const DiskDim groups = DiskDim::blocks(Axis::kCols, state.scheme.scale_cols);
  const DiskRange units = groups.units(state.cols.begin, state.cols.count);
  const int64_t size = state.scheme.scale_cols;
  for (int64_t i = 0; i < units.count; ++i) {
    const int64_t end = size > 0 ? std::min((units.begin + i + 1) * size - state.cols.begin, state.cols.count) : state.cols.count;
    section.run_end.push_back(static_cast<int32_t>(end));
    section.run_units.push_back(static_cast<int32_t>(i));
  }
}

void set_matrix(CodedSection& section, const CodedState& state) {
  section.matrix.code = state.layout.code;
  section.matrix.zero = state.layout.zero;
  section.matrix.n = section.rows;
  section.matrix.k = state.cols.count;
  section.matrix.runs = static_cast<int64_t>(section.run_end.size());
  section.matrix.run_end = section.run_end.data();
}

}  // namespace

Result<std::shared_ptr<CodedState>> make_coded_state(const LinearShape& shape, const QuantScheme& scheme, const PublishedLayout& layout,
                                                     const CodedOptions& options) {
  auto state = std::make_shared<CodedState>();
  state->name = shape.name;
  state->scheme = scheme;
  state->layout = layout;
  state->options = options;
  state->col_dim = shape.cols;
  state->parts = shape.parts;
  LAMINA_ASSIGN(state->cols, cut(shape.cols, shape.name));
  constexpr int64_t kExactInputs = 131072;  // of a run, for sums of int8 products in i32
  const bool long_runs = scheme.scale_cols == 0 || scheme.scale_cols > kExactInputs;
  if (options.act_quant && scheme.input.type == InputQuant::Type::kInt8 && long_runs && state->cols.count > kExactInputs) {
    return error(shape.name, ": ", state->cols.count, " inputs share a scale, int8 sums are exact up to ", kExactInputs,
                 " (--act-quant off keeps inputs plain)");
  }
  const bool input_by_part = options.act_quant && scheme.input.from_checkpoint;
  const bool by_part = scheme.act_order || input_by_part;
  int64_t row = 0;
  for (const ParamPart& part : shape.parts) {
    LAMINA_ASSIGN(const ShardCut rows, cut(part.rows, shape.name));
    if (by_part || state->sections.empty()) {
      CodedSection& section = state->sections.emplace_back();
      section.row_begin = row;
    }
    state->sections.back().rows += rows.local.value;
    state->section_of_part.push_back(state->sections.size() - 1);
    row += rows.local.value;
  }
  for (CodedSection& section : state->sections) {
    set_runs(section, *state);
    set_matrix(section, *state);
  }
  options.scratch->need(scratch_bytes(*state));
  return state;
}

void set_groups(CodedSection& section, const std::vector<int32_t>& groups) {
  std::vector<int32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return groups[static_cast<size_t>(a)] < groups[static_cast<size_t>(b)]; });
  section.run_end.clear();
  section.run_units.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t group = groups[static_cast<size_t>(order[i])];
    if (section.run_units.empty() || section.run_units.back() != group) {
      section.run_units.push_back(group);
      section.run_end.push_back(0);
    }
    section.run_end.back() = static_cast<int32_t>(i) + 1;
  }
  section.order = std::is_sorted(order.begin(), order.end()) ? std::vector<int32_t>() : std::move(order);
  section.matrix.runs = static_cast<int64_t>(section.run_end.size());
  section.matrix.run_end = section.run_end.data();
}

size_t most_code_bytes(const CodedState& state, const CodedSection& section) {
  if (!state.scheme.act_order) return section.matrix.code_bytes();
  // Every run is padded to whole words of 32 bits.
  const int64_t in_word = 32 / kernels::code_bits(section.matrix.code);
  const int64_t words = (section.matrix.k + state.groups() * (in_word - 1)) / in_word;
  return static_cast<size_t>(section.matrix.panels() * kernels::kPanelRows * words * 4);
}

size_t scratch_bytes(const CodedState& state) {
  constexpr int64_t kAlignment = 4 * 64;                                // of at most four pieces
  const int64_t row = 2 * state.cols.count + 2 * (state.groups() + 1);  // in order and rounded; maxima, then scales
  return static_cast<size_t>(InputScratch::kRows * row * static_cast<int64_t>(sizeof(float)) + kAlignment);
}

Status InputScratch::reserve() {
  if (buffer_.size() >= needed_) return {};
  LAMINA_ASSIGN(buffer_, Buffer::allocate(needed_));
  return {};
}

}  // namespace lamina
