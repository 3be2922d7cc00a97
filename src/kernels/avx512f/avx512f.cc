#include "kernels/avx512f/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/table.h"

namespace lamina::kernels {

constinit const Kernels kAvx512FKernels = vec::make_table<Avx512F>(Isa::kAvx512F, &kAvx512FQuantised, avx512f_attention_item);

}  // namespace lamina::kernels
