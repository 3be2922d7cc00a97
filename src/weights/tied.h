#pragma once
// Tied heads whose checkpoint holds a head tensor all the same.

#include <string_view>

#include "checkpoint/safetensors.h"

namespace lamina {

/// For a model that ties its head to the embedding: the embedding is used. When the checkpoint holds both tensors and they differ (in type,
/// shape or any byte), logs one warning that names both, and returns true. Reads at most both tensors once and drops their pages.
bool warn_if_tied_head_differs(const Checkpoint& checkpoint, std::string_view head, std::string_view embedding);

}  // namespace lamina
