#include "models/qwen2.h"

namespace lamina {
std::unique_ptr<CausalLM> create_qwen2(const ModelBuild& build) { return std::make_unique<Qwen2ForCausalLM>(build); }

}  // namespace lamina
