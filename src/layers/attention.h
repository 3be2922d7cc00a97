#pragma once
// RadixAttention: the adapter between a model's attention and the paged KV pool. It knows this rank's heads and shapes; where keys and
// values live is in the batch.

#include <memory>
#include <string>

#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "layers/context.h"

namespace lamina {

enum class AttentionType { kDecoder, kDecoderBidirectional, kEncoderOnly };

struct RadixAttentionSpec {
  std::string name;  // "model.layers.3.self_attn.attn"
  LayerId layer_id;  // global
  int q_heads = 0;   // this rank's
  int kv_heads = 0;  // this rank's
  int qk_dim = 0;
  int v_dim = 0;  // 0: qk_dim
  float scale = 1.0F;
  float logit_cap = 0.0F;  // 0: off
  int64_t window = -1;     // -1: off; else the token itself and window - 1 before it (and after it when not causal)
  AttentionType type = AttentionType::kDecoder;
  bool cross_attention = false;  // refused
};

/// One call of the backend: real rows only. Query row t of a sequence stands at position prefix_len + t and sees positions
/// [0, prefix_len + row_count), cut by mask and window, all read from the pool: writing this step's K/V comes first.
struct AttentionCall {
  const RadixAttentionSpec& spec;
  ConstF32View q;             // [real rows, q_heads * qk_dim]
  ConstF32View keys, values;  // [kv rows, kv_heads * dim], already rotated: go to the first kv rows slots of out_cache_loc
  bool save_kv_cache = true;  // false: nothing is written, the K/V of this step's positions are in the pool already
  MutableActivation out;      // [real rows, q_heads * v_dim]
};

/// Virtual seam: how attention over the pool is computed. One object a rank: it may keep scratch between calls.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  virtual const char* name() const = 0;
  virtual void forward(ForwardContext& ctx, const AttentionCall& call) = 0;
  /// Stage memory a call over this spec may take, its output not counted. Given back before forward returns.
  virtual size_t stage_bytes(const RadixAttentionSpec& spec, int threads) const = 0;
};
/// The fast paged backend over kernels::attention. `exact`: nothing is rounded but keys and values to the type of the cache.
std::unique_ptr<AttentionBackend> make_paged_backend(bool exact = false);
/// Naive, in float64, one row at a time: the oracle that ships beside it (`--attention-backend reference`).
std::unique_ptr<AttentionBackend> make_reference_backend();

/// Bidirectional and encoder-only attention need all rows of a request in one step: keys of later chunks are not there yet.
kernels::AttentionMask attention_mask(AttentionType type);

/// Where the kernels write and read what a KvTensor says.
kernels::KvTarget kv_target(const KvTensor& tensor);
kernels::KvSource kv_source(const KvTensor& tensor);

class RadixAttention {
 public:
  /// What is not supported (cross-attention, heads that do not divide, sizes below 1) is recorded in `build`.
  RadixAttention(BuildContext& build, RadixAttentionSpec spec);

  /// q [rows, q_heads * qk_dim]; k [kv rows, kv_heads * qk_dim], v [kv rows, kv_heads * v_dim]. Only real rows are computed; padded
  /// rows come out zero, and a batch without real rows calls no backend. K/V of as many rows as q are cut to the real ones like q;
  /// another number of rows (draft and verification passes) is an extent of its own, all real, one entry of out_cache_loc each.
  /// Attention always reads the pool, so K/V of this step that are not given or not saved must be there. Sharing another layer's
  /// K/V (k or v without data) is not supported and a CHECK. `out_dtype`: what the output projection multiplies.
  Activation forward(ForwardContext& ctx, ConstF32View q, ConstF32View k, ConstF32View v, DType out_dtype, bool save_kv_cache = true) const;

  const RadixAttentionSpec& spec() const { return spec_; }
  /// Stage memory of the output of `rows` rows.
  size_t stage_bytes(int64_t rows) const {
    return static_cast<size_t>(rows * (int64_t{spec_.q_heads} * spec_.v_dim * 4 + Arena::kActivationPad)) + 64;
  }
  KvLayerShape kv_shape() const { return {spec_.kv_heads, spec_.qk_dim, spec_.v_dim}; }

 private:
  RadixAttentionSpec spec_;
};

}  // namespace lamina
