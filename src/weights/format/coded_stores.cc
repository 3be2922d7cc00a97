// Stores of the tensors of a layer of codes: what is read is checked here, value by value, and an error names the tensor.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/strings.h"
#include "kernels/float8.h"
#include "weights/format/coded_state.h"
#include "weights/store_parts.h"

namespace lamina {

namespace {

using Axis = DiskDim::Axis;

/// An element of a tensor of scales; NaN for what is none.
float scale_at(const SourceRows& source, int64_t row, int64_t col) {
  const auto* element = static_cast<const uint8_t*>(source.data) + (row * source.stride + col) * dtype_bytes(source.dtype);
  if (source.dtype == DType::kF8E4M3) return kernels::e4m3_to_f32(*element);
  if (source.dtype == DType::kU8 || source.dtype == DType::kF8E8M0) return *element == 255 ? NAN : std::ldexp(1.0F, *element - 127);
  return element_f32(element, source.dtype);
}

int64_t integer_at(const SourceRows& source, int64_t index) {
  const auto* element = static_cast<const uint8_t*>(source.data) + index * dtype_bytes(source.dtype);
  int64_t wide = 0;
  int32_t narrow = 0;
  if (source.dtype == DType::kI64) return std::memcpy(&wide, element, sizeof(wide)), wide;
  return std::memcpy(&narrow, element, sizeof(narrow)), narrow;
}

class CodedStore : public ParamStore {
 public:
  CodedStore(std::shared_ptr<CodedState> state, PublishedTensor tensor) : state_(std::move(state)), tensor_(std::move(tensor)) {}

  Status plan(const std::vector<DType>& sources, std::string_view param) override {
    sources_ = sources;
    for (const DType dtype : sources) {
      if (std::ranges::find(tensor_.dtypes, dtype) != tensor_.dtypes.end()) continue;
      std::vector<std::string> allowed;
      for (const DType a : tensor_.dtypes) allowed.emplace_back(dtype_name(a));
      return error(param, ": type ", dtype_name(dtype), " cannot be loaded here (allowed: ", join(allowed, ", "), ")");
    }
    return {};
  }
  size_t bytes() const override { return 0; }
  DType storage_dtype() const override { return sources_.empty() ? tensor_.dtypes.front() : sources_.front(); }
  void bind(uint8_t*) override {}
  int64_t row_grain() const override {
    return state_->sections.size() == 1 ? kernels::kPanelRows : std::max<int64_t>(1, state_->local_rows());
  }
  Status finish() override { return fault_.status(); }
  DummyBits dummy() const override { return tensor_.dummy; }

 protected:
  void refuse(Error fault) { fault_.add(std::move(fault)); }
  /// A scale of matrix row `row` (counted from source.first_row) in unit `unit` of the columns.
  float scale(const SourceRows& source, int64_t row, int64_t unit) const {
    int64_t index[2] = {0, 0};
    for (size_t i = 0; i < tensor_.disk.size(); ++i) index[i] = unit_of(tensor_.disk[i], source, row, unit);
    return scale_at(source, index[0], index[1]);
  }
  static int64_t unit_of(const DiskDim& dim, const SourceRows& source, int64_t row, int64_t unit) {
    if (dim.axis != Axis::kRows) return unit;
    return dim.units(source.first_row + row, 1).begin - dim.units(source.first_row, 1).begin;
  }

  std::shared_ptr<CodedState> state_;
  PublishedTensor tensor_;
  std::vector<DType> sources_;

 private:
  LeastFault fault_;
};

/// A store whose memory the sections share out, whole cache lines each.
class SectionedStore : public CodedStore {
 public:
  using CodedStore::CodedStore;
  size_t bytes() const final {
    size_t total = 0;
    for (const CodedSection& section : state_->sections) total += whole_lines(most_bytes(section));
    return total;
  }
  void bind(uint8_t* memory) final {
    for (CodedSection& section : state_->sections) {
      place(section, memory);
      memory += whole_lines(most_bytes(section));
    }
  }

 protected:
  /// Of whatever is read into the section.
  virtual size_t most_bytes(const CodedSection& section) const = 0;
  virtual void place(CodedSection& section, uint8_t* memory) const = 0;
  /// The section's matrix with as many runs as it may get.
  kernels::CodedMatrix with_most_runs(const CodedSection& section) const {
    kernels::CodedMatrix matrix = section.matrix;
    if (state_->scheme.act_order) matrix.runs = state_->groups();
    return matrix;
  }
};

class CodesStore final : public SectionedStore {
 public:
  using SectionedStore::SectionedStore;
  std::string describe() const override {
    const InputQuant& input = state_->scheme.input;
    std::string out = state_->scheme.describe();
    if (!state_->options.act_quant || input.type == InputQuant::Type::kNone) return out;
    return out +
           cat(", inputs ", input.type == InputQuant::Type::kInt8 ? "int8" : "fp8", input.from_checkpoint ? " by a stored scale" : "");
  }
  void put(int64_t row, const SourceRows& source) override {
    const CodedSection& section = state_->section_of(source.part);
    const int64_t cols = section.matrix.k;
    std::vector<uint8_t> codes(static_cast<size_t>(kernels::kPanelRows * cols)), ordered(section.order.empty() ? 0 : codes.size());
    for (int64_t r = 0; r < source.count; r += kernels::kPanelRows) {
      const int64_t count = std::min(kernels::kPanelRows, source.count - r);
      state_->layout.unpack(state_->scheme, source, r, count, cols, codes.data());
      if (section.matrix.code == kernels::Code::kFp8E4m3) check_fp8(source, codes.data(), count * cols);
      if (!ordered.empty()) {
        for (int64_t line = 0; line < count * cols; line += cols)
          for (int64_t i = 0; i < cols; ++i)
            ordered[static_cast<size_t>(line + i)] = codes[static_cast<size_t>(line + section.order[static_cast<size_t>(i)])];
      }
      const uint8_t* const from = ordered.empty() ? codes.data() : ordered.data();
      kernels::pack_codes(section.matrix, row - section.row_begin + r, count, from, cols);
    }
  }
  Status finish() override {
    LAMINA_TRY(CodedStore::finish());
    return state_->options.scratch->reserve();
  }

 private:
  size_t most_bytes(const CodedSection& section) const override { return most_code_bytes(*state_, section); }
  void place(CodedSection& section, uint8_t* memory) const override { section.matrix.codes = memory; }
  void check_fp8(const SourceRows& source, const uint8_t* codes, int64_t count) {
    if (std::all_of(codes, codes + count, [](uint8_t code) { return (code & 0x7F) != 0x7F; })) return;
    refuse(error(source.tensor, ": holds NaN"));
  }
};

class ScalesStore final : public SectionedStore {
 public:
  using SectionedStore::SectionedStore;
  Status plan(const std::vector<DType>& sources, std::string_view param) override {
    LAMINA_TRY(CodedStore::plan(sources, param));
    const bool same = std::adjacent_find(sources.begin(), sources.end(), std::not_equal_to<>()) == sources.end();
    DType kept = same ? storage_dtype() : DType::kF32;
    if (kept == DType::kF8E8M0) kept = DType::kU8;
    for (CodedSection& section : state_->sections) section.matrix.scale_dtype = kept;
    return {};
  }
  std::string describe() const override { return dtype_words(sources_) + " scales"; }
  void put(int64_t row, const SourceRows& source) override {
    const CodedSection& section = state_->section_of(source.part);
    std::vector<float> scales(static_cast<size_t>(section.matrix.runs));
    for (int64_t r = 0; r < source.count; ++r) {
      for (size_t run = 0; run < scales.size(); ++run) scales[run] = checked(source, r, section.run_units[run]);
      kernels::pack_scales(section.matrix, row - section.row_begin + r, 1, scales.data(), section.matrix.runs);
    }
  }

 private:
  size_t most_bytes(const CodedSection& section) const override { return with_most_runs(section).scale_bytes(); }
  void place(CodedSection& section, uint8_t* memory) const override { section.matrix.scales = memory; }
  float checked(const SourceRows& source, int64_t row, int64_t unit) {
    const float value = scale(source, row, unit);
    const bool alone = state_->scheme.scale_rows == 0;  // one scale for a tensor has no reason to turn its sign
    if (std::isfinite(value) && !(alone && value < 0)) return value;
    refuse(error(source.tensor, ": scale ", value, alone ? " (allowed: finite, not negative)" : " (allowed: finite)"));
    return 1.0F;
  }
};

/// Zero points; of a symmetric scheme they are checked and not kept.
class ZerosStore final : public SectionedStore {
 public:
  using SectionedStore::SectionedStore;
  std::string describe() const override {
    return state_->scheme.symmetric ? cat("zero points, ", 1 << (state_->scheme.bits - 1), " everywhere: checked, not kept")
                                    : "zero points";
  }
  void put(int64_t row, const SourceRows& source) override {
    const CodedSection& section = state_->section_of(source.part);
    std::vector<uint8_t> zeros(static_cast<size_t>(section.matrix.runs));
    for (int64_t r = 0; r < source.count; ++r) {
      for (size_t run = 0; run < zeros.size(); ++run) zeros[run] = checked(source, r, section.run_units[run]);
      if (!state_->scheme.symmetric) {
        kernels::pack_zeros(section.matrix, row - section.row_begin + r, 1, zeros.data(), section.matrix.runs);
      }
    }
  }

 private:
  size_t most_bytes(const CodedSection& section) const override {
    return state_->scheme.symmetric ? 0 : with_most_runs(section).zero_bytes();
  }
  void place(CodedSection& section, uint8_t* memory) const override {
    if (!state_->scheme.symmetric) section.matrix.zeros = memory;
  }
  uint8_t checked(const SourceRows& source, int64_t row, int64_t unit) {
    const int zero = state_->layout.unpack_zero(state_->scheme, source, row, unit);
    if (state_->scheme.symmetric) {
      const int middle = 1 << (state_->scheme.bits - 1);
      if (zero == middle) return 0;
      refuse(error(source.tensor, ": zero point ", zero, ", but the config says symmetric, which makes it ", middle,
                   state_->scheme.layout == QuantScheme::Layout::kGptq ? " (is checkpoint_format right? gptq stores it less one)" : ""));
      return 0;
    }
    if (zero >= 0 && zero <= 255) return static_cast<uint8_t>(zero);
    refuse(error(source.tensor, ": zero point ", zero, " (allowed: 0 to 255)"));
    return 0;
  }
};

/// g_idx: read as a whole on every rank. Zeros only: groups follow each other.
class IndexStore final : public CodedStore {
 public:
  using CodedStore::CodedStore;
  std::string describe() const override {
    return state_->scheme.act_order ? "order of the inputs" : "order of the inputs: checked, not kept";
  }
  bool goes_first() const override { return true; }
  int64_t row_grain() const override { return std::max<int64_t>(1, state_->local_rows()); }
  void put(int64_t, const SourceRows& source) override {
    const int64_t cols = state_->col_dim.on_disk().value, groups = state_->groups();
    std::vector<int32_t> in_order(static_cast<size_t>(cols)), given(in_order.size());
    bool zeros = true;
    for (int64_t i = 0; i < cols; ++i) {
      const int64_t group = integer_at(source, i);
      if (group < 0 || group >= groups) {
        return refuse(error(source.tensor, ": group ", group, " of input ", i, " (allowed: 0 to ", groups - 1, ")"));
      }
      zeros = zeros && group == 0;
      given[static_cast<size_t>(i)] = static_cast<int32_t>(group);
      in_order[static_cast<size_t>(i)] = static_cast<int32_t>(state_->scheme.scale_cols > 0 ? i / state_->scheme.scale_cols : 0);
    }
    if (zeros) given = in_order;
    if (!state_->scheme.act_order) {
      if (given != in_order) refuse(error(source.tensor, ": groups are not in order, but the config says desc_act false"));
      return;
    }
    const auto begin = given.begin() + state_->cols.begin;
    set_groups(state_->section_of(source.part), {begin, begin + state_->cols.count});
  }
};

class ShapeStore final : public CodedStore {
 public:
  using CodedStore::CodedStore;
  std::string describe() const override { return "shape: checked, not kept"; }
  void put(int64_t, const SourceRows& source) override {
    const int64_t rows = integer_at(source, 0), cols = integer_at(source, 1), wanted_cols = state_->col_dim.on_disk().value;
    int64_t all = 0;
    for (const ParamPart& part : state_->parts) all += part.rows.on_disk().value;
    const int64_t wanted_rows = state_->parts[static_cast<size_t>(source.part)].rows.on_disk().value;
    if (cols == wanted_cols && (rows == wanted_rows || rows == all)) return;
    refuse(error(source.tensor, ": says [", rows, ", ", cols, "], the model needs [", wanted_rows, ", ", wanted_cols, "]"));
  }
};

/// One f32 a part, kept for each row.
class GlobalScaleStore final : public SectionedStore {
 public:
  using SectionedStore::SectionedStore;
  std::string describe() const override { return dtype_words(sources_) + " scale of each part, kept by row"; }
  void put(int64_t row, const SourceRows& source) override {
    const CodedSection& section = state_->section_of(source.part);
    const float value = scale(source, 0, 0);
    const float factor = state_->layout.global_scale_divides ? 1.0F / value : value;
    if (!(std::isfinite(value) && value > 0 && std::isfinite(factor))) {
      return refuse(error(source.tensor, ": scale ", value, " (allowed: finite, above 0, and so its inverse)"));
    }
    float* const out = section.matrix.row_scales + row - section.row_begin;
    std::fill(out, out + source.count, factor);
  }

 private:
  size_t most_bytes(const CodedSection& section) const override {
    return static_cast<size_t>(section.matrix.panels() * kernels::kPanelRows) * sizeof(float);
  }
  void place(CodedSection& section, uint8_t* memory) const override { section.matrix.row_scales = reinterpret_cast<float*>(memory); }
};

class InputScaleStore final : public CodedStore {
 public:
  using CodedStore::CodedStore;
  std::string describe() const override {
    const bool used = state_->options.act_quant && state_->scheme.input.from_checkpoint;
    return dtype_words(sources_) + (used ? " scale of the inputs" : " scale of the inputs: checked, not used");
  }
  void put(int64_t, const SourceRows& source) override {
    const float value = scale(source, 0, 0);
    if (!(std::isfinite(value) && value > 0)) return refuse(error(source.tensor, ": scale ", value, " (allowed: finite, above 0)"));
    state_->section_of(source.part).input_scale = value;
  }
  int64_t row_grain() const override { return std::max<int64_t>(1, state_->local_rows()); }
};

}  // namespace

std::unique_ptr<ParamStore> make_codes_store(std::shared_ptr<CodedState> state) {
  return std::make_unique<CodesStore>(state, state->layout.codes);
}
std::unique_ptr<ParamStore> make_scales_store(std::shared_ptr<CodedState> state) {
  return std::make_unique<ScalesStore>(state, state->layout.scales);
}
std::unique_ptr<ParamStore> make_zeros_store(std::shared_ptr<CodedState> state) {
  return std::make_unique<ZerosStore>(state, *state->layout.zeros);
}
std::unique_ptr<ParamStore> make_index_store(std::shared_ptr<CodedState> state) {
  return std::make_unique<IndexStore>(state, *state->layout.index);
}
std::unique_ptr<ParamStore> make_shape_store(std::shared_ptr<CodedState> state) {
  return std::make_unique<ShapeStore>(state, *state->layout.shape);
}
std::unique_ptr<ParamStore> make_global_scale_store(std::shared_ptr<CodedState> state) {
  return std::make_unique<GlobalScaleStore>(state, *state->layout.global_scale);
}
std::unique_ptr<ParamStore> make_input_scale_store(std::shared_ptr<CodedState> state) {
  return std::make_unique<InputScaleStore>(state, *state->layout.input_scale);
}

}  // namespace lamina
