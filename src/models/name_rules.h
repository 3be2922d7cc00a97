#pragma once
// What decoder checkpoints of the LLaMA family call things beside the plain names.

#include "checkpoint/config.h"
#include "layers/rotary.h"
#include "weights/name_map.h"

namespace lamina {

/// Prefixes of multimodal wrappers and of bare bodies (embedding models), and the tensors that are rightly skipped, with reasons.
NameMap decoder_name_map(const ModelConfig& config);

/// The rotary embedding of one layer.
RotarySpec rotary_spec(const ModelConfig& config, LayerId layer);

}  // namespace lamina
