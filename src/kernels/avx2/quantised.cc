#include "kernels/avx2/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/coded_matmul.h"
#include "kernels/vector/quantise.h"

namespace lamina::kernels {

constinit const QuantisedKernels kAvx2Quantised{
    .matmul_panels = vec::coded_panels<Avx2>, .run_maxima = vec::run_maxima<Avx2>, .quantise = vec::quantise<Avx2>};

}  // namespace lamina::kernels
