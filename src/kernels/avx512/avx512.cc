#include "kernels/avx512/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/table.h"

namespace lamina::kernels {

constinit const Kernels kAvx512Kernels = vec::make_table<Avx512>(Isa::kAvx512, &kAvx512Quantised, avx512_attention_item);

}  // namespace lamina::kernels
