#include "kernels/avx2/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/table.h"

namespace lamina::kernels {

constinit const Kernels kAvx2Kernels = vec::make_table<Avx2>(Isa::kAvx2, &kAvx2Quantised, avx2_attention_item);

}  // namespace lamina::kernels
