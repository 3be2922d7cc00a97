#pragma once
// LLaMA (HF modeling_llama.py) and the classes that are it under another name.

#include <string>

#include "layers/activation.h"
#include "layers/attention.h"
#include "layers/linear.h"
#include "models/decoder_layer.h"
#include "models/decoder_model.h"

namespace lamina {

/// Grouped-query attention with rotary embedding. `q_norm`/`k_norm` come in a relative (qwen3.h).
class LlamaAttention {
 public:
  static constexpr std::string_view kGroup = "attn_tp";

  LlamaAttention(const ModelBuild& build, LayerId id, const std::string& prefix);

  /// x [rows, hidden], normed -> this rank's addend of [rows, hidden].
  Partial forward(ForwardContext& ctx, const Activation& x) const;

  const LinearLayer& input_layer() const { return qkv_proj; }
  KvLayerShape kv_shape() const { return attn.kv_shape(); }
  size_t stage_bytes(int64_t rows, const AttentionBackend& backend, int threads) const;

  QkvParallelLinear qkv_proj;
  RowParallelLinear o_proj;
  RadixAttention attn;

 protected:
  /// Rotates q and k in place, attends, projects.
  Partial attend(ForwardContext& ctx, const QkvParallelLinear::Heads& qkv) const;

  std::string name_;
  int rotary_ = -1;
  const RotarySet* rotary_set_;
};

/// down(silu(gate(x)) * up(x)).
class LlamaMLP {
 public:
  LlamaMLP(const ModelBuild& build, const std::string& prefix);
  Partial forward(ForwardContext& ctx, const Activation& x) const;

  const LinearLayer& input_layer() const { return gate_up_proj; }
  size_t stage_bytes(int64_t rows, int threads) const {
    return gate_up_proj.stage_bytes(rows) + silu_stage_bytes(down_proj, rows, threads) + down_proj.stage_bytes(rows);
  }

  MergedColumnParallelLinear gate_up_proj;
  RowParallelLinear down_proj;
};

using LlamaDecoderLayer = DecoderLayer<LlamaAttention, LlamaMLP>;
using LlamaForCausalLM = DecoderForCausalLM<DecoderModel<LlamaDecoderLayer>>;

std::unique_ptr<CausalLM> create_llama(const ModelBuild& build);

inline constexpr ModelEntry kLlamaEntries[] = {
    {"LlamaForCausalLM", create_llama},     {"MistralForCausalLM", create_llama},
    {"Phi3ForCausalLM", create_llama},  // fused qkv_proj and gate_up_proj on disk
    {"InternLM3ForCausalLM", create_llama}, {"IQuestCoderForCausalLM", create_llama},
};

}  // namespace lamina
