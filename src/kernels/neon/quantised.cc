#include "kernels/neon/vector.h"
#include "kernels/tables.h"
#include "kernels/vector/coded_matmul.h"
#include "kernels/vector/quantise.h"

namespace lamina::kernels {

constinit const QuantisedKernels kNeonQuantised{
    .matmul_panels = vec::coded_panels<Neon>, .run_maxima = vec::run_maxima<Neon>, .quantise = vec::quantise<Neon>};

}  // namespace lamina::kernels
