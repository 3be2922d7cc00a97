#pragma once
// The weight-format seam: linear = shard spec x weight format x kernel. A format is one file in weights/format/; it declares the tensors of
// a linear layer, packs them, multiplies, and says how its input is rounded. Layers and models never ask which format they have.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/buffer.h"
#include "weights/param.h"

namespace lamina {

/// What a matmul runs on.
struct Compute {
  const kernels::Kernels* kernels = nullptr;
  ThreadTeam* team = nullptr;
};

/// A linear layer as its format sees it.
struct LinearShape {
  std::string name;              // "model.layers.0.self_attn.qkv_proj"
  std::vector<ParamPart> parts;  // output features, in order
  ShardDim cols;                 // input features
};

/// How a matmul quantises its input, where whoever makes the input may do it: the matmul then takes the codes (Activation::scales).
struct InputCodes {
  DType codes = DType::kU8;      // kU8 or kBF16, as QuantisedKernels::quantise writes them
  const float* scale = nullptr;  // one for all rows, of the weights; null: the scale of each row, by its largest value
};

/// The weights of one linear layer in one format. Made as an empty shell; filled through the Params it declared.
class LinearWeights {
 public:
  virtual ~LinearWeights() = default;
  /// The element type in which matmul wants x: the norm or activation before it writes that. Valid after load planning.
  virtual DType input_dtype() const = 0;
  /// Set where rows of the input can be quantised one by one and once for the whole layer. The same on all ranks of a group. Valid after
  /// loading; before, as if the input scales of a fused layer's parts were equal.
  virtual std::optional<InputCodes> input_codes() const { return std::nullopt; }
  /// out[m, n] = sum_k x[m, k] * w[n, k] + bias[n]; n: local rows with padding. bias may be null. x in input_dtype(), or
  /// coded as input_codes() says.
  virtual void matmul(const Compute& compute, const Activation& x, const float* bias, F32View out) const = 0;
  /// Of gate_proj and up_proj in one matrix: whether matmul_gated can take the place of matmul and silu_and_mul.
  virtual bool can_gate() const { return false; }
  /// out[m, i] = silu(gate_i) * up_i, to the bit; f32 or bf16. `scratch`: kernels::gated_scratch_bytes.
  virtual void matmul_gated(const Compute&, const Activation&, const float* /*bias*/, const MutableActivation& /*out*/,
                            void* /*scratch*/) const {
    LAMINA_CHECK(false, "a format that can gate says how");
  }
  /// Row r of the local matrix in f32 (embedding look-up out of the packed copy).
  virtual void row(const Compute& compute, int64_t r, float* out) const = 0;
};

class WeightFormat {
 public:
  virtual ~WeightFormat() = default;
  virtual const char* name() const = 0;
  /// Bytes that the matmuls of the layers made so far share beside their parameters; reserved when the first of them is loaded.
  virtual size_t scratch_bytes() const { return 0; }
  /// Declares the layer's parameters in `params` (which owns their stores) and returns the shell that reads them.
  virtual Result<std::unique_ptr<LinearWeights>> create_weights(const LinearShape& shape, ParamList& params) const = 0;
};

/// How plain (unquantised) checkpoints are stored and multiplied. Sources are f32, f16 or bf16.
struct PlainFormatOptions {
  DType model_dtype = DType::kBF16;  // --dtype. kBF16: weights and inputs are rounded to bf16. kF16 and kF32: weights are stored as in the
                                     // file (a fused parameter of mixed types in f32), inputs and products in f32.
};
/// `kernels` packs the rows and outlives the format and its stores.
std::unique_ptr<WeightFormat> make_plain_format(PlainFormatOptions options, const kernels::Kernels& kernels);

class QuantConfig;

struct QuantisedFormatOptions {
  DType model_dtype = DType::kBF16;  // of layers left plain; else: kBF16 rounds plain inputs to bf16, kF16 and kF32 leave them in f32
  bool act_quant = true;             // --act-quant: false leaves all inputs plain
  std::function<bool(const std::string& tensor)> holds;  // whether the checkpoint has a tensor of this parameter name; null: not known.
                                                         // Asked for heads and embeddings, of which few configs speak.
  bool quantise = false;                                 // the checkpoint is plain, and layers quantise its tensors while they are loaded
};
/// Every layer as `config` says: plain, or in one of the formats of codes (format/coded.h). `config` and `kernels` outlive the format and
/// its stores. A fused layer whose parts are quantised differently is a fault of the ParamList.
std::unique_ptr<WeightFormat> make_quantised_format(const QuantConfig& config, QuantisedFormatOptions options,
                                                    const kernels::Kernels& kernels);

}  // namespace lamina
