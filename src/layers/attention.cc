#include "layers/attention.h"

#include <cstring>

#include "base/strings.h"

namespace lamina {
namespace {

Status check_spec(const RadixAttentionSpec& spec) {
  if (spec.cross_attention) return error(spec.name, ": cross-attention is not supported, only attention over the sequence itself");
  if (spec.kv_heads < 1 || spec.q_heads < 1 || spec.q_heads % spec.kv_heads != 0)
    return error(spec.name, ": ", spec.q_heads, " query heads over ", spec.kv_heads, " key heads, wanted a multiple of them");
  if (spec.qk_dim < 1 || spec.v_dim < 1)
    return error(spec.name, ": head sizes ", spec.qk_dim, " (query, key) and ", spec.v_dim, " (value), wanted at least 1");
  if (spec.window == 0 || spec.window < -1) return error(spec.name, ": window is ", spec.window, ", wanted at least 1, or -1 for none");
  if (!(spec.logit_cap >= 0)) return error(spec.name, ": logit cap is ", spec.logit_cap, ", wanted more than 0, or 0 for none");
  return {};
}

MutableActivation first_rows(const MutableActivation& out, int64_t rows) {
  MutableActivation cut = out;
  cut.rows = rows;
  return cut;
}

void clear_rows_from(const MutableActivation& out, int64_t row) {
  const int64_t row_bytes = out.stride * dtype_bytes(out.dtype);
  if (row < out.rows) std::memset(static_cast<char*>(out.data) + row * row_bytes, 0, static_cast<size_t>((out.rows - row) * row_bytes));
}

}  // namespace

kernels::KvTarget kv_target(const KvTensor& tensor) {
  return {.dtype = tensor.dtype,
          .base = tensor.base,
          .slot_stride = tensor.slot_stride,
          .scale = tensor.scale,
          .scales = tensor.scales,
          .scale_stride = tensor.scale_stride,
          .head_dim = tensor.dim};
}

kernels::KvSource kv_source(const KvTensor& tensor) {
  return {.dtype = tensor.dtype,
          .base = tensor.base,
          .slot_stride = tensor.slot_stride,
          .scale = tensor.scale,
          .scales = tensor.scales,
          .scale_stride = tensor.scale_stride};
}

kernels::AttentionMask attention_mask(AttentionType type) {
  return type == AttentionType::kDecoder ? kernels::AttentionMask::kCausal : kernels::AttentionMask::kBidirectional;
}

RadixAttention::RadixAttention(BuildContext& build, RadixAttentionSpec spec) : spec_(std::move(spec)) {
  if (spec_.v_dim == 0) spec_.v_dim = spec_.qk_dim;
  if (Status status = check_spec(spec_); !status.ok()) build.fail(status.error());
}

Activation RadixAttention::forward(ForwardContext& ctx, ConstF32View q, ConstF32View k, ConstF32View v, DType out_dtype,
                                   bool save_kv_cache) const {
  LAMINA_CHECK(k.data != nullptr && v.data != nullptr, "attention without keys and values of its own");
  LAMINA_CHECK(q.cols == static_cast<int64_t>(spec_.q_heads) * spec_.qk_dim, "attention: columns of q");
  LAMINA_CHECK(k.cols == static_cast<int64_t>(spec_.kv_heads) * spec_.qk_dim, "attention: columns of k");
  LAMINA_CHECK(v.cols == static_cast<int64_t>(spec_.kv_heads) * spec_.v_dim, "attention: columns of v");
  LAMINA_CHECK(k.rows == v.rows, "attention: rows of k and v differ");
  const int64_t real_rows = ctx.batch.real_rows;
  LAMINA_CHECK(real_rows <= q.rows, "attention: q lacks real rows");
  const int64_t kv_rows = k.rows == q.rows ? real_rows : k.rows;
  LAMINA_CHECK(kv_rows <= static_cast<int64_t>(ctx.batch.out_cache_loc.size()), "attention: more keys than slots to write them to");

  const MutableActivation out = ctx.arena().activation(out_dtype, q.rows, static_cast<int64_t>(spec_.q_heads) * spec_.v_dim);
  clear_rows_from(out, real_rows);
  if (real_rows > 0) {
    ctx.attention.forward(ctx, {.spec = spec_,
                                .q = q.slice(0, real_rows),
                                .keys = k.slice(0, kv_rows),
                                .values = v.slice(0, kv_rows),
                                .save_kv_cache = save_kv_cache,
                                .out = first_rows(out, real_rows)});
  }
  return out.view();
}

}  // namespace lamina
