#pragma once
// The linear family. Weights are [out, in] as in HF; each class takes its parallel group by name and declares its parameters once.
//
//   class                  holds on a rank of P        forward returns
//   ReplicatedLinear       [O, I]                      complete rows
//   ColumnParallelLinear   [O/P, I]                    this rank's columns, or all of them (gather_output)
//   MergedColumnParallel   [sum(O_i/P), I]             this rank's part of each output, side by side
//   QkvParallelLinear      [(nq + nk) d + nk dv, I]    this rank's heads
//   RowParallelLinear      [O, I/P]                    a Partial

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/context.h"
#include "layers/partial.h"
#include "weights/format.h"

namespace lamina {

struct LinearOptions {
  std::string name;  // HF module path: "model.layers.0.self_attn.o_proj"
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool bias = false;
  bool skip_bias_add = false;  // forward leaves the bias out; the caller adds bias() itself
  std::string_view group = "tp";
};

/// Weights, bias and the matmul of one linear layer; the classes below say how they are cut.
class LinearLayer {
 public:
  /// Element type in which forward wants x; f32 input is rounded here when it differs.
  DType input_dtype() const { return weights_->input_dtype(); }
  /// Set where whoever makes x may write its codes (layers/input_quant.h), which forward then takes; after loading.
  std::optional<InputCodes> input_codes() const { return fuses_ ? weights_->input_codes() : std::nullopt; }
  /// Columns of x on this rank.
  int64_t local_in() const { return local_in_; }
  /// Columns forward returns on this rank.
  int64_t local_out() const { return local_out_; }
  /// This rank's bias, empty without one.
  std::span<const float> bias() const;
  const std::string& name() const { return name_; }
  /// Stage memory of a forward over `rows`.
  size_t stage_bytes(int64_t rows) const;
  const LinearWeights& weights() const { return *weights_; }

 protected:
  struct Cut {
    std::vector<ParamPart> parts;
    ShardDim cols;
    bool bias_here = true;  // row-parallel: rank 0 adds it
  };
  LinearLayer(BuildContext& build, const LinearOptions& options, const Cut& cut);
  /// x [rows, local in] -> [rows, local out] in stage memory, bias added unless skipped.
  F32View multiply(ForwardContext& ctx, const Activation& x) const;
  /// CHECKs x and makes of it what the weights multiply.
  Activation input(ForwardContext& ctx, const Activation& x) const;
  const float* added_bias() const { return add_bias_ ? bias_->data() : nullptr; }
  bool fuses() const { return fuses_; }

 private:
  std::string name_;
  std::unique_ptr<LinearWeights> weights_;
  const VectorStore* bias_ = nullptr;
  bool add_bias_ = false;
  bool fuses_;  // BoundaryOptions::fused
  int64_t local_in_ = 0;
  int64_t local_out_ = 0;
};

class ReplicatedLinear : public LinearLayer {
 public:
  ReplicatedLinear(BuildContext& build, const LinearOptions& options);
  F32View forward(ForwardContext& ctx, const Activation& x) const { return multiply(ctx, x); }
};

class ColumnParallelLinear : public LinearLayer {
 public:
  ColumnParallelLinear(BuildContext& build, const LinearOptions& options, bool gather_output = false);
  F32View forward(ForwardContext& ctx, const Activation& x) const;
  /// As LinearLayer's, and what the gathered columns take.
  size_t stage_bytes(int64_t rows) const;

 private:
  const ParallelGroup* group_;
  bool gather_output_;
};

/// Several column-parallel outputs of one input in one matmul: gate_proj and up_proj as gate_up_proj.
class MergedColumnParallelLinear : public LinearLayer {
 public:
  struct Output {
    std::string module;  // "gate_proj"
    int64_t features = 0;
  };
  MergedColumnParallelLinear(BuildContext& build, const LinearOptions& options, const std::vector<Output>& outputs);
  F32View forward(ForwardContext& ctx, const Activation& x) const { return multiply(ctx, x); }
  /// Of two outputs, gate and up: whether forward_gated can take the place of forward and silu_and_mul.
  bool can_gate() const { return fuses() && weights().can_gate(); }
  /// out [rows, local out / 2] = silu(gate) * up.
  void forward_gated(ForwardContext& ctx, const Activation& x, const MutableActivation& out) const;
};

struct QkvOptions {
  std::string name;  // "model.layers.0.self_attn.qkv_proj"
  int64_t hidden_size = 0;
  int heads = 0;
  int kv_heads = 0;
  int qk_dim = 0;
  int v_dim = 0;  // 0: qk_dim
  bool bias = false;
  std::string_view group = "tp";
  std::string_view kv_group = "";  // empty: same as group
};

/// q_proj, k_proj and v_proj by heads; KV heads are replicated when ranks outnumber them.
class QkvParallelLinear : public LinearLayer {
 public:
  QkvParallelLinear(BuildContext& build, const QkvOptions& options);
  struct Heads {
    F32View q;  // [rows, nq * qk_dim]
    F32View k;  // [rows, nk * qk_dim]
    F32View v;  // [rows, nk * v_dim]
  };
  Heads forward(ForwardContext& ctx, const Activation& x) const;
  /// This rank's counts.
  const HeadCounts& heads() const { return counts_; }

 private:
  HeadCounts counts_;
  int qk_dim_;
  int v_dim_;
};

class RowParallelLinear : public LinearLayer {
 public:
  /// input_is_parallel false: x is the whole input and each rank takes its own slice.
  RowParallelLinear(BuildContext& build, const LinearOptions& options, bool input_is_parallel = true);
  Partial forward(ForwardContext& ctx, const Activation& x) const;
  /// Completes the sum here, for layers that own their residual.
  F32View complete(ForwardContext& ctx, const Activation& x) const { return PartialAccess::reduce(forward(ctx, x)); }

 private:
  const ParallelGroup* group_;
  bool input_is_parallel_;
  int64_t slice_begin_ = 0;
  int64_t slice_count_ = 0;
};

}  // namespace lamina
