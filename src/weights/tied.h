#pragma once
// Tied heads whose checkpoint holds a head all the same.

#include "checkpoint/safetensors.h"
#include "weights/name_map.h"

namespace lamina {

/// For a model that ties its head to the embedding: the embedding is used, and tensors of a head that repeat those of the embedding change
/// nothing. A plain head that differs (in type, shape or any byte) is worth one warning that names both tensors. A quantised one is
/// refused, as is one beside a quantised embedding: whoever made it meant a head of its own. Reads at most all of these tensors once and
/// drops their pages.
Status check_tied_head(const Checkpoint& checkpoint, const NameMap& names);

}  // namespace lamina
