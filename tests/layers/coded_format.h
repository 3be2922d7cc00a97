#pragma once
// A weight format whose matmuls quantise their inputs: f32 weights, multiplied by the values that the codes stand for.

#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/quantised.h"
#include "tests/layers/support.h"

namespace lamina::layer_test {

/// Matmuls of all ranks, by what came.
struct InputCounts {
  std::atomic<int> coded = 0, plain = 0;
};

struct CodedInputs {
  DType codes = DType::kU8;
  std::optional<float> scale = {};  // none: one a row
  InputCounts* counts = nullptr;
};

/// The f32 values that codes stand for.
inline Matrix values_of(const Activation& codes) {
  Matrix out(codes.rows, codes.cols);
  for (int64_t r = 0; r < codes.rows; ++r) {
    for (int64_t c = 0; c < codes.cols; ++c) {
      const int64_t i = r * codes.stride + c;
      const float code = codes.dtype == DType::kU8 ? static_cast<float>(static_cast<const uint8_t*>(codes.data)[i]) - 128.0F
                                                   : bf16_to_f32(static_cast<const uint16_t*>(codes.data)[i]);
      out.view().at(r, c) = code * codes.scales.at(r, 0);
    }
  }
  return out;
}

/// Quantised all at once, as a matmul does.
inline Matrix values_of(ConstF32View x, const CodedInputs& inputs) {
  std::vector<uint16_t> memory(static_cast<size_t>(x.rows * x.cols));
  std::vector<float> scales(static_cast<size_t>(x.rows), inputs.scale.value_or(0));
  MutableActivation codes;
  codes.dtype = inputs.codes, codes.data = memory.data(), codes.rows = x.rows, codes.cols = codes.stride = x.cols;
  codes.scales = F32View(scales.data(), x.rows, 1);
  const std::vector<int32_t> whole = {static_cast<int32_t>(x.cols)};
  if (!inputs.scale) {
    best_kernels().quantised->run_maxima(x, whole, codes.scales);
    kernels::scales_of_maxima(inputs.codes, codes.scales);
  }
  best_kernels().quantised->quantise(x, whole, codes.scales, codes);
  return x.rows == 0 ? Matrix(0, x.cols) : values_of(codes.view());
}

class CodedLayer final : public LinearWeights {
 public:
  CodedLayer(std::unique_ptr<LinearWeights> inner, CodedInputs inputs, bool is_cut)
      : inner_(std::move(inner)), inputs_(inputs), is_cut_(is_cut) {}

  DType input_dtype() const override { return DType::kF32; }
  std::optional<InputCodes> input_codes() const override {
    if (inputs_.scale) return InputCodes{.codes = inputs_.codes, .scale = &*inputs_.scale};
    if (is_cut_) return std::nullopt;
    return InputCodes{.codes = inputs_.codes};
  }
  void matmul(const Compute& compute, const Activation& x, const float* bias, F32View out) const override {
    if (inputs_.counts != nullptr) ++(x.is_coded() ? inputs_.counts->coded : inputs_.counts->plain);
    const Matrix values = x.is_coded() ? values_of(x) : values_of(x.f32(), inputs_);
    inner_->matmul(compute, values.view(), bias, out);
  }
  void row(const Compute& compute, int64_t r, float* out) const override { inner_->row(compute, r, out); }

 private:
  std::unique_ptr<LinearWeights> inner_;
  CodedInputs inputs_;
  bool is_cut_;
};

class CodedFormat final : public WeightFormat {
 public:
  explicit CodedFormat(CodedInputs inputs) : inputs_(inputs), plain_(make_plain_format({.model_dtype = DType::kF32}, best_kernels())) {}
  const char* name() const override { return "coded"; }
  Result<std::unique_ptr<LinearWeights>> create_weights(const LinearShape& shape, ParamList& params) const override {
    LAMINA_ASSIGN(std::unique_ptr<LinearWeights> inner, plain_->create_weights(shape, params));
    const bool is_cut = shape.cols.rule != ShardRule::kReplicate && shape.cols.group->size > 1;
    return std::unique_ptr<LinearWeights>(std::make_unique<CodedLayer>(std::move(inner), inputs_, is_cut));
  }

 private:
  CodedInputs inputs_;
  std::unique_ptr<WeightFormat> plain_;
};

inline std::unique_ptr<WeightFormat> make_coded_format(const CodedInputs& inputs) { return std::make_unique<CodedFormat>(inputs); }

}  // namespace lamina::layer_test
