#pragma once
// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * weight.

#include <string>

#include "layers/context.h"
#include "layers/linear.h"

namespace lamina {

class RmsNorm {
 public:
  RmsNorm(BuildContext& build, std::string name, int64_t width, double eps);

  /// Registers the matmul that reads this norm's output, which is then written in that layer's input type (`fuse_input_quant`).
  void feeds(const LinearLayer& consumer) { consumer_ = &consumer; }

  /// x [rows, width] -> stage memory.
  Activation forward(ForwardContext& ctx, ConstF32View x) const;
  /// residual += x, then the norm of residual, in one pass; bits as add then norm.
  Activation add_forward(ForwardContext& ctx, F32View residual, ConstF32View x) const;
  /// In place on each head (QK-norm); width is head_dim.
  void forward_heads(ForwardContext& ctx, F32View x, int heads) const;

  const std::string& name() const { return name_; }
  size_t stage_bytes(int64_t rows) const;

 private:
  kernels::RmsNormArgs args() const { return {weight_->data(), eps_}; }
  MutableActivation output(ForwardContext& ctx, int64_t rows) const;

  std::string name_;
  int64_t width_;
  float eps_;
  const VectorStore* weight_;
  const LinearLayer* consumer_ = nullptr;
};

}  // namespace lamina
