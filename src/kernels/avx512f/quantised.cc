#include "kernels/avx512f/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/coded_matmul.h"
#include "kernels/vector/quantise.h"

namespace lamina::kernels {

constinit const QuantisedKernels kAvx512FQuantised{
    .matmul_panels = vec::coded_panels<Avx512F>, .run_maxima = vec::run_maxima<Avx512F>, .quantise = vec::quantise<Avx512F>};

}  // namespace lamina::kernels
