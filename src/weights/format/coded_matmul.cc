// The matmul of a layer of codes: its input rounded as the scheme says, then one product a section.

#include <algorithm>
#include <cmath>

#include "kernels/gated.h"
#include "weights/format/coded_state.h"

namespace lamina {

namespace {

/// Takes pieces of the rank's scratch memory, 64-byte aligned.
class Pieces {
 public:
  explicit Pieces(uint8_t* next) : next_(next) {}
  void* take(int64_t bytes) {
    uint8_t* const out = next_;
    next_ += (bytes + 63) / 64 * 64;
    return out;
  }
  F32View matrix(int64_t rows, int64_t cols) { return {static_cast<float*>(take(rows * cols * 4)), rows, cols}; }

 private:
  uint8_t* next_;
};

/// out[r, i] = x[r, order[i]]
template <class T>
void permute(const Activation& x, const std::vector<int32_t>& order, T* out, int64_t begin, int64_t end) {
  const auto cols = static_cast<int64_t>(order.size());
  for (int64_t r = begin; r < end; ++r) {
    const T* row = static_cast<const T*>(x.data) + r * x.stride;
    for (int64_t i = 0; i < cols; ++i) out[r * cols + i] = row[order[static_cast<size_t>(i)]];
  }
}

/// The smallest power of two that is not below `scale` (UE8M0 as DeepSeek's scale_fmt has it).
float power_of_two(float scale) {
  int exponent = 0;
  const float half = std::frexp(scale, &exponent);
  return std::ldexp(1.0F, half == 0.5F ? exponent - 1 : exponent);
}

class CodedWeights final : public LinearWeights {
 public:
  explicit CodedWeights(std::shared_ptr<const CodedState> state) : state_(std::move(state)) {}

  DType input_dtype() const override { return quantises() || state_->options.model_dtype != DType::kBF16 ? DType::kF32 : DType::kBF16; }

  std::optional<InputCodes> input_codes() const override {
    const InputQuant& rule = state_->scheme.input;
    if (!quantises() || state_->scheme.act_order) return std::nullopt;
    const std::vector<CodedSection>& sections = state_->sections;
    if (!rule.from_checkpoint) {
      if (rule.run > 0 || rule.power_of_two || is_cut()) return std::nullopt;
      return InputCodes{.codes = code_dtype(), .scale = nullptr};
    }
    const float scale = sections.front().input_scale;
    for (const CodedSection& section : sections) {
      if (section.input_scale != scale) return std::nullopt;
    }
    return InputCodes{.codes = code_dtype(), .scale = &sections.front().input_scale};
  }

  void matmul(const Compute& compute, const Activation& x, const float* bias, F32View out) const override {
    check_input(x);
    if (x.is_coded()) {
      for (const CodedSection& section : state_->sections) multiply(compute, x, section, bias, out);
      return;
    }
    for (int64_t row = 0; row < x.rows; row += InputScratch::kRows) {
      const int64_t count = std::min(InputScratch::kRows, x.rows - row);
      multiply(compute, x.slice(row, count), bias, out.slice(row, count));
    }
  }

  bool can_gate() const override { return state_->sections.size() == 1 && kernels::halves_are_panels(state_->local_rows()); }
  void matmul_gated(const Compute& compute, const Activation& x, const float* bias, const MutableActivation& out,
                    void* scratch) const override {
    check_input(x);
    const CodedSection& section = state_->sections.front();
    const int64_t most = x.is_coded() ? x.rows : InputScratch::kRows;
    for (int64_t row = 0; row < x.rows; row += most) {
      const Activation rows = x.slice(row, std::min(most, x.rows - row));
      const Activation input = x.is_coded() ? rows : prepare(compute, rows, section);
      kernels::matmul_gated(*compute.kernels, *compute.team, input, section.matrix, bias, {out.slice(row, rows.rows), scratch});
    }
  }

  void row(const Compute&, int64_t r, float* out) const override {
    const CodedSection* section = state_->sections.data();
    while (r >= section->row_begin + section->rows) ++section;
    kernels::unpack_codes(section->matrix, r - section->row_begin, out);
    if (section->order.empty()) return;
    const std::vector<float> sorted(out, out + section->matrix.k);
    for (size_t i = 0; i < sorted.size(); ++i) out[section->order[i]] = sorted[i];
  }

 private:
  using Type = InputQuant::Type;

  void check_input(const Activation& x) const {
    LAMINA_CHECK(x.cols == state_->cols.count && x.dtype == (x.is_coded() ? code_dtype() : input_dtype()), state_->name.c_str());
  }

  DType code_dtype() const { return state_->scheme.input.type == Type::kInt8 ? DType::kU8 : DType::kBF16; }
  /// Whether other ranks hold inputs of the same rows.
  bool is_cut() const {
    const ParallelGroup* group = state_->col_dim.group;
    return state_->col_dim.rule != ShardRule::kReplicate && group != nullptr && group->size > 1;
  }
  bool quantises() const { return state_->options.act_quant && state_->scheme.input.type != Type::kNone; }

  void multiply(const Compute& compute, const Activation& x, const float* bias, F32View out) const {
    const bool alike = !state_->scheme.act_order && !state_->scheme.input.from_checkpoint;
    Activation input;
    for (const CodedSection& section : state_->sections) {
      if (section.rows == 0) continue;
      const bool reuse = &section != state_->sections.data() && (alike || same_input(section, *(&section - 1)));
      if (!reuse) input = prepare(compute, x, section);
      multiply(compute, input, section, bias, out);
    }
  }

  static void multiply(const Compute& compute, const Activation& input, const CodedSection& section, const float* bias, F32View out) {
    kernels::matmul_coded(*compute.kernels, *compute.team, input, section.matrix, bias == nullptr ? nullptr : bias + section.row_begin,
                          out.columns(section.row_begin, section.rows));
  }

  static bool same_input(const CodedSection& a, const CodedSection& b) {
    return a.rows > 0 && b.rows > 0 && a.input_scale == b.input_scale && a.order == b.order && a.run_end == b.run_end;
  }

  Activation prepare(const Compute& compute, const Activation& x, const CodedSection& section) const {
    Pieces pieces(state_->options.scratch->data());
    Activation ordered = x;
    if (!section.order.empty()) {
      void* data = pieces.take(x.rows * x.cols * dtype_bytes(x.dtype));
      compute.team->parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
        if (x.dtype == DType::kF32)
          permute(x, section.order, static_cast<float*>(data), begin, end);
        else
          permute(x, section.order, static_cast<uint16_t*>(data), begin, end);
      });
      ordered.data = data;
      ordered.stride = x.cols;
    }
    if (!quantises()) return ordered;
    return quantised(compute, ordered.f32(), section, pieces);
  }

  Activation quantised(const Compute& compute, ConstF32View x, const CodedSection& section, Pieces& pieces) const {
    const InputQuant& rule = state_->scheme.input;
    const DType dtype = code_dtype();
    const int32_t whole = static_cast<int32_t>(x.cols);
    const kernels::Run<int32_t> runs = rule.run > 0 ? std::span<const int32_t>(section.run_end) : std::span<const int32_t>(&whole, 1);
    ConstF32View scales;
    if (rule.from_checkpoint) {
      scales = ConstF32View(&section.input_scale, x.rows, 1, 0);
    } else {
      scales = dynamic_scales(compute, x, dtype, runs, pieces);
    }
    MutableActivation codes;
    codes.dtype = dtype;
    codes.data = pieces.take(x.rows * x.cols * dtype_bytes(dtype));
    codes.rows = x.rows;
    codes.cols = codes.stride = x.cols;
    compute.team->parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
      compute.kernels->quantised->quantise(x.slice(begin, end - begin), runs, scales.slice(begin, end - begin),
                                           codes.slice(begin, end - begin));
    });
    Activation out = codes.view();
    out.scales = scales;
    return out;
  }

  /// One scale a row and run. A run that other ranks hold a part of has the maximum of all of it.
  ConstF32View dynamic_scales(const Compute& compute, ConstF32View x, DType dtype, kernels::Run<int32_t> runs, Pieces& pieces) const {
    const int64_t run = state_->scheme.input.run;
    const bool shared = is_cut() && (run == 0 || state_->cols.count % run != 0);
    // Over all ranks: place of this rank's first run among them.
    const int64_t all = shared && run > 0 ? state_->groups() : runs.size;
    const int64_t first = shared && run > 0 ? state_->cols.begin / run : 0;
    const F32View maxima = pieces.matrix(x.rows, all);
    const F32View own = maxima.columns(first, runs.size);
    if (all > runs.size) std::fill(maxima.data, maxima.data + maxima.rows * all, 0.0F);
    compute.team->parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
      compute.kernels->quantised->run_maxima(x.slice(begin, end - begin), runs, own.slice(begin, end - begin));
    });
    if (shared) state_->col_dim.group->communicator->all_reduce_max(maxima);
    kernels::scales_of_maxima(dtype, own);
    if (state_->scheme.input.power_of_two) {
      for (int64_t r = 0; r < own.rows; ++r)
        for (int64_t i = 0; i < own.cols; ++i) own.at(r, i) = power_of_two(own.at(r, i));
    }
    return own;
  }

  std::shared_ptr<const CodedState> state_;
};

}  // namespace

std::unique_ptr<LinearWeights> make_coded_weights(std::shared_ptr<const CodedState> state) {
  return std::make_unique<CodedWeights>(std::move(state));
}

}  // namespace lamina
