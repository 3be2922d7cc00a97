#pragma once
// Made-up weights for `--load-format dummy`.

#include "weights/loader.h"

namespace lamina {

/// Fills the rows of `piece` with the values that execute_dummy promises.
void put_dummy(Param& param, const LoadPiece& piece);

}  // namespace lamina
