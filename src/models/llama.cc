#include "models/llama.h"

#include <cmath>

namespace lamina {

LlamaAttention::LlamaAttention(const ModelBuild& build, LayerId id, const std::string& prefix)
    : qkv_proj(build.context, {.name = cat(prefix, ".qkv_proj"),
                               .hidden_size = build.config.hidden_size,
                               .heads = static_cast<int>(build.config.num_attention_heads),
                               .kv_heads = static_cast<int>(build.config.num_key_value_heads),
                               .qk_dim = static_cast<int>(build.config.head_dim),
                               .bias = build.config.qkv_bias,
                               .group = kGroup}),
      o_proj(build.context, {.name = cat(prefix, ".o_proj"),
                             .in_features = build.config.num_attention_heads * build.config.head_dim,
                             .out_features = build.config.hidden_size,
                             .bias = build.config.o_bias,
                             .group = kGroup}),
      attn(build.context, {.name = cat(prefix, ".attn"),
                           .layer_id = id,
                           .q_heads = qkv_proj.heads().q_heads,
                           .kv_heads = qkv_proj.heads().kv_heads,
                           .qk_dim = static_cast<int>(build.config.head_dim),
                           .scale = static_cast<float>(std::pow(build.config.head_dim, -0.5)),
                           .window = build.config.sliding_window(id) > 0 ? build.config.sliding_window(id) : -1}),
      name_(prefix),
      rotary_set_(&build.context.rotary()) {
  if (auto index = build.context.check(build.context.rotary().add(rotary_spec(build.config, id)))) rotary_ = *index;
}

Partial LlamaAttention::forward(ForwardContext& ctx, const Activation& x) const { return attend(ctx, qkv_proj.forward(ctx, x)); }

Partial LlamaAttention::attend(ForwardContext& ctx, const QkvParallelLinear::Heads& qkv) const {
  rotary_set_->rotate(ctx, rotary_, qkv.q, qkv_proj.heads().q_heads);
  rotary_set_->rotate(ctx, rotary_, qkv.k, qkv_proj.heads().kv_heads);
  ctx.tap(name_, "q_rope", qkv.q);
  ctx.tap(name_, "k_rope", qkv.k);
  return o_proj.forward(ctx, attn.forward(ctx, qkv.q, qkv.k, qkv.v, o_proj.input_dtype()));
}

size_t LlamaAttention::stage_bytes(int64_t rows, const AttentionBackend& backend, int threads) const {
  return qkv_proj.stage_bytes(rows) + 2 * o_proj.stage_bytes(rows) + attn.stage_bytes(rows) + backend.stage_bytes(attn.spec(), threads);
}

LlamaMLP::LlamaMLP(const ModelBuild& build, const std::string& prefix)
    : gate_up_proj(build.context,
                   {.name = cat(prefix, ".gate_up_proj"), .in_features = build.config.hidden_size, .bias = build.config.mlp_bias},
                   {{"gate_proj", build.config.intermediate_size}, {"up_proj", build.config.intermediate_size}}),
      down_proj(build.context, {.name = cat(prefix, ".down_proj"),
                                .in_features = build.config.intermediate_size,
                                .out_features = build.config.hidden_size,
                                .bias = build.config.mlp_bias}) {}

Partial LlamaMLP::forward(ForwardContext& ctx, const Activation& x) const {
  return down_proj.forward(ctx, silu_and_mul(ctx, gate_up_proj, x, down_proj));
}

std::unique_ptr<CausalLM> create_llama(const ModelBuild& build) { return std::make_unique<LlamaForCausalLM>(build); }

}  // namespace lamina
