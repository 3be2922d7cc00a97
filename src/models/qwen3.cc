#include "models/qwen3.h"

namespace lamina {

Qwen3Attention::Qwen3Attention(const ModelBuild& build, LayerId id, const std::string& prefix)
    : LlamaAttention(build, id, prefix),
      q_norm(build.context, cat(prefix, ".q_norm"), build.config.head_dim, build.config.rms_norm_eps),
      k_norm(build.context, cat(prefix, ".k_norm"), build.config.head_dim, build.config.rms_norm_eps) {}

Partial Qwen3Attention::forward(ForwardContext& ctx, const Activation& x) const {
  const QkvParallelLinear::Heads qkv = qkv_proj.forward(ctx, x);
  q_norm.forward_heads(ctx, qkv.q, qkv_proj.heads().q_heads);
  k_norm.forward_heads(ctx, qkv.k, qkv_proj.heads().kv_heads);
  return attend(ctx, qkv);
}

std::unique_ptr<CausalLM> create_qwen3(const ModelBuild& build) { return std::make_unique<Qwen3ForCausalLM>(build); }

}  // namespace lamina
