#pragma once
// Qwen3 (HF modeling_qwen3.py): Qwen2's model with another layer type; q and k are normed per head before the rotation.

#include "models/qwen2.h"

namespace lamina {

class Qwen3Attention : public LlamaAttention {
 public:
  Qwen3Attention(const ModelBuild& build, LayerId id, const std::string& prefix);
  Partial forward(ForwardContext& ctx, const Activation& x) const;

  RmsNorm q_norm;
  RmsNorm k_norm;
};

using Qwen3DecoderLayer = DecoderLayer<Qwen3Attention, LlamaMLP>;
using Qwen3ForCausalLM = DecoderForCausalLM<Qwen2Model<Qwen3DecoderLayer>>;

std::unique_ptr<CausalLM> create_qwen3(const ModelBuild& build);

inline constexpr ModelEntry kQwen3Entries[] = {{"Qwen3ForCausalLM", create_qwen3}};

}  // namespace lamina
