#pragma once
// The pre-norm decoder layer that LLaMA and its relatives share: attention stage, FFN stage. The layer sees no collective; with stage
// boundaries it sees no residual either.

#include <string>
#include <vector>

#include "base/strings.h"
#include "layers/boundary/layer_stack.h"
#include "layers/norm.h"
#include "models/causal_lm.h"

namespace lamina {

template <class Attention, class Mlp>
class DecoderLayer {
 public:
  DecoderLayer(const ModelBuild& build, LayerId id, const std::string& prefix)
      : self_attn(build, id, cat(prefix, ".self_attn")),
        mlp(build, cat(prefix, ".mlp")),
        input_layernorm(build.context, cat(prefix, ".input_layernorm"), build.config.hidden_size, build.config.rms_norm_eps),
        post_attention_layernorm(build.context, cat(prefix, ".post_attention_layernorm"), build.config.hidden_size,
                                 build.config.rms_norm_eps) {
    input_layernorm.feeds(self_attn.input_layer());
    post_attention_layernorm.feeds(mlp.input_layer());
    boundaries_ = build.context.stack().append_stages(id, stages(build), {&input_layernorm, &post_attention_layernorm});
  }

  /// What a layer declares; a pure function of config and options, equal for every layer of this skeleton.
  static std::vector<StageDecl> stages(const ModelBuild& build) {
    if (!build.options.stage_boundaries) return {};
    return {declare_attn({.read = StageRead::kNormQuant, .group = Attention::kGroup}), declare_ffn()};
  }

  void forward(ForwardContext& ctx, ResidualStream& stream) const {
    if (boundaries_.empty()) return forward_owning(ctx, stream.owned(ctx));
    const auto [attn, ffn] = std::pair(boundaries_[0], boundaries_[1]);
    attn->finish(stream, self_attn.forward(ctx, attn->prepare(ctx, stream, input_layernorm)));
    ffn->finish(stream, mlp.forward(ctx, ffn->prepare(ctx, stream, post_attention_layernorm)));
  }

  /// Stage memory of the larger of the two stages.
  size_t stage_bytes(int64_t rows, const AttentionBackend& backend, int threads) const {
    const size_t norm = input_layernorm.stage_bytes(rows, threads);
    return norm + std::max(self_attn.stage_bytes(rows, backend, threads), mlp.stage_bytes(rows, threads));
  }

  Attention self_attn;
  Mlp mlp;
  RmsNorm input_layernorm;
  RmsNorm post_attention_layernorm;

 private:
  void forward_owning(ForwardContext& ctx, F32View residual) const {
    ctx.memory.next_stage();
    add(ctx, residual, PartialAccess::reduce(self_attn.forward(ctx, input_layernorm.forward(ctx, residual))));
    ctx.memory.next_stage();
    add(ctx, residual, PartialAccess::reduce(mlp.forward(ctx, post_attention_layernorm.forward(ctx, residual))));
  }
  static void add(ForwardContext& ctx, F32View residual, ConstF32View values) { ctx.compute.kernels->add_rows(residual, values); }

  std::vector<const StageBoundary*> boundaries_;
};

}  // namespace lamina
