#pragma once
// The tables behind kernels::table(); each is defined by its ISA's translation unit.

#include "kernels/kernels.h"
#include "kernels/quantised.h"

namespace lamina::kernels {

extern const Kernels kRefKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512FKernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

extern const QuantisedKernels kRefQuantised;
extern const QuantisedKernels kAvx2Quantised;
extern const QuantisedKernels kAvx512FQuantised;
extern const QuantisedKernels kAvx512Quantised;
extern const QuantisedKernels kNeonQuantised;

void avx2_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch);
void avx512f_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch);
void avx512_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch);
void neon_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch);

}  // namespace lamina::kernels
