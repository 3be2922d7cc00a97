#pragma once
// The readable path: plain loops in f32, no intrinsics. The oracle of the fast paths, and the path of CPUs without AVX2.

#include "kernels/kernels.h"

namespace lamina::kernels::ref {

void pack_rows(const PackedMatrix& packed, int64_t row, int64_t count, const void* src, DType src_dtype, int64_t src_stride);
void unpack_row(const PackedMatrix& packed, int64_t row, float* out);
void matmul_panels(const Activation& x, const PackedMatrix& packed, const float* bias, F32View out, int64_t panel_begin, int64_t panel_end);

void rms_norm(ConstF32View x, const RmsNormArgs& args, MutableActivation out);
void add_rms_norm(F32View residual, const Addends& addends, const RmsNormArgs& args, MutableActivation out);
void add_rows(F32View residual, ConstF32View x);
void head_rms_norm(F32View x, int heads, int head_dim, const RmsNormArgs& args);
void rope(F32View x, int heads, const RopeArgs& args);
void silu_and_mul(ConstF32View gate_up, MutableActivation out);
void round_to_bf16(ConstF32View x, MutableActivation out);
void store_kv(ConstF32View x, Run<int64_t> slots, KvTarget target);

void attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch);

int64_t argmax(Run<float> values);
double log_sum_exp(Run<float> values);

void quantise_weights(const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales);

double dot_burst(int64_t rounds);
uint64_t read_lines(const void* data, int64_t count);

}  // namespace lamina::kernels::ref
