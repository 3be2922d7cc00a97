#pragma once
// Qwen2 (HF modeling_qwen2.py): LLaMA's layer with biases on q, k and v. Its model is generic in the layer, for Qwen3.

#include "models/llama.h"

namespace lamina {

using Qwen2DecoderLayer = LlamaDecoderLayer;

template <class Layer = Qwen2DecoderLayer>
using Qwen2Model = DecoderModel<Layer>;

using Qwen2ForCausalLM = DecoderForCausalLM<Qwen2Model<>>;

std::unique_ptr<CausalLM> create_qwen2(const ModelBuild& build);

inline constexpr ModelEntry kQwen2Entries[] = {{"Qwen2ForCausalLM", create_qwen2}};

}  // namespace lamina
