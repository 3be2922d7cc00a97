#include "kernels/neon/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/table.h"

namespace lamina::kernels {

constinit const Kernels kNeonKernels = vec::make_table<Neon>(Isa::kNeon, &kNeonQuantised, neon_attention_item);

}  // namespace lamina::kernels
