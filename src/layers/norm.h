#pragma once
// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x^2) + eps) * weight.

#include <span>
#include <string>

#include "layers/context.h"
#include "layers/linear.h"

namespace lamina {

class RmsNorm {
 public:
  RmsNorm(BuildContext& build, std::string name, int64_t width, double eps);

  /// Registers the matmul that reads this norm's output, which is then written in that layer's input type, or as its codes when they have
  /// a static scale (`fuse_input_quant`): rows may be exchanged between ranks, scales of rows would have to follow them.
  void feeds(const LinearLayer& consumer) { consumer_ = &consumer; }

  /// The element type of what is written.
  DType output_dtype() const;
  /// Where the norm of `rows` rows goes, in the consumer's type: stage memory.
  MutableActivation output(ForwardContext& ctx, int64_t rows) const;
  /// x [rows, width] -> out.
  void forward(ForwardContext& ctx, ConstF32View x, const MutableActivation& out) const;
  /// The same, to stage memory.
  Activation forward(ForwardContext& ctx, ConstF32View x) const;
  /// residual += ((p0 + p1) + p2) ..., then the norm of residual, in one pass; bits as add then norm. `parts` [rows, width] each; none:
  /// only the norm.
  void add_forward(ForwardContext& ctx, F32View residual, std::span<const ConstF32View> parts, const MutableActivation& out) const;
  /// In place on each head (QK-norm); width is head_dim.
  void forward_heads(ForwardContext& ctx, F32View x, int heads) const;

  const std::string& name() const { return name_; }
  size_t stage_bytes(int64_t rows, int threads) const;

 private:
  /// The consumer's, if static.
  std::optional<InputCodes> output_codes() const;
  kernels::RmsNormArgs args() const { return {weight_->data(), eps_}; }

  std::string name_;
  int64_t width_;
  float eps_;
  const VectorStore* weight_;
  const LinearLayer* consumer_ = nullptr;
};

}  // namespace lamina
