// quantization_config: parse_quant_config(), then what it says of the modules of a model.
#include "checkpoint/quant_config.h"
#include "tests/fuzz/json_mutator.h"

LAMINA_FUZZ_JSON_INPUT()

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto block = lamina::parse_json({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!block.ok()) return 0;
  const auto config = lamina::parse_quant_config(*block, "config.json", "quantization_config.");
  if (!config.ok()) return 0;
  const lamina::QuantConfig::Module modules[] = {
      {.names = {"model.embed_tokens"}, .embedding = true},
      {.names = {"model.layers.0.self_attn.qkv_proj", "model.layers.0.self_attn.q_proj"}},
      {.names = {"model.layers.11.mlp.gate_up_proj", "model.layers.11.mlp.gate_proj", "model.layers.11.mlp.up_proj"}},
      {.names = {"lm_head"}, .head = true},
  };
  for (const auto& module : modules) {
    const lamina::QuantConfig::Decision decision = config->decide(module);
    if (decision.scheme != nullptr) (void)decision.scheme->describe();
  }
  return 0;
}
