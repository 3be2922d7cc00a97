#include "kernels/avx512/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/coded_matmul.h"
#include "kernels/vector/quantise.h"

namespace lamina::kernels {

constinit const QuantisedKernels kAvx512Quantised{
    .matmul_panels = vec::coded_panels<Avx512>, .run_maxima = vec::run_maxima<Avx512>, .quantise = vec::quantise<Avx512>};

}  // namespace lamina::kernels
