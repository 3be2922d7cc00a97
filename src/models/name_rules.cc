#include "models/name_rules.h"

#include <array>

namespace lamina {

NameMap decoder_name_map(const ModelConfig& config) {
  std::vector<RenameRule> renames = {
      {"embed_tokens", "model.embed_tokens"},
      {"layers", "model.layers"},
      {"norm", "model.norm"},
  };
  std::vector<SkipRule> skips = {
      {"rotary_emb.inv_freq", "rope frequencies are computed from the config"},
      {"rotary_emb.cos_cached", "rope tables are computed from the config"},
      {"rotary_emb.sin_cached", "rope tables are computed from the config"},
  };
  if (!config.wrapper.empty()) {
    renames.push_back({"language_model", ""});
    renames.push_back({"model.language_model", "model"});
    for (const char* tower : {"vision_tower", "model.vision_tower", "visual", "model.visual", "vision_model", "model.vision_model"}) {
      skips.push_back({tower, "vision tower: only the language model is served"});
    }
    for (const char* projector : {"multi_modal_projector", "model.multi_modal_projector"}) {
      skips.push_back({projector, "projector of the vision tower: only the language model is served"});
    }
  }
  if (config.tie_word_embeddings) skips.push_back({"lm_head", "tied: the head is model.embed_tokens", "model.embed_tokens"});
  return {std::move(renames), std::move(skips)};
}

RotarySpec rotary_spec(const ModelConfig& config, LayerId layer) {
  const RopeConfig& rope = config.rope(layer);
  static constexpr std::array kKinds = {RopeKind::kDefault, RopeKind::kLinear,       RopeKind::kDynamic, RopeKind::kLlama3,
                                        RopeKind::kYarn,    RopeKind::kDeepseekYarn, RopeKind::kLongrope};
  RotarySpec spec;
  spec.kind = rope.alpha ? RopeKind::kDynamicAlpha : kKinds[static_cast<size_t>(rope.type)];
  spec.theta = rope.theta;
  spec.head_dim = static_cast<int>(config.head_dim);
  spec.rotary_dim = static_cast<int>(rope.rotary_dim);
  spec.max_position = rope.max_position_embeddings;
  spec.factor = rope.factor;
  spec.original_max_position = rope.original_max_position_embeddings;
  spec.low_freq_factor = rope.low_freq_factor;
  spec.high_freq_factor = rope.high_freq_factor;
  spec.beta_fast = rope.beta_fast;
  spec.beta_slow = rope.beta_slow;
  spec.extrapolation_factor = rope.extrapolation_factor;
  spec.attn_factor = rope.attn_factor;
  spec.truncate = rope.truncate;
  spec.attention_factor = rope.attention_factor;
  spec.mscale = rope.mscale;
  spec.mscale_all_dim = rope.mscale_all_dim;
  spec.alpha = rope.alpha.value_or(1.0);
  spec.short_factor = rope.short_factor;
  spec.long_factor = rope.long_factor;
  return spec;
}

}  // namespace lamina
