#include <cmath>
#include <limits>

#include "kernels/float8.h"
#include "kernels/ref/ref.h"
#include "kernels/tables.h"

namespace lamina::kernels::ref {
namespace {

int8_t nearest_int8(float x) { return static_cast<int8_t>(std::nearbyint(std::fmin(std::fmax(x, -128.0F), 127.0F))); }

/// The scale of element c of a row, stored when the head has its own.
float int8_scale(ConstF32View x, int64_t row, int64_t c, int64_t slot, const KvTarget& target) {
  if (target.scales == nullptr) return target.scale;
  const int64_t head = c / target.head_dim;
  float& scale = target.scales[slot * target.scale_stride + head];
  if (c % target.head_dim != 0) return scale;
  float most = 0.0F;
  for (int64_t i = 0; i < target.head_dim; ++i) most = std::fmax(most, std::fabs(x.at(row, c + i)));
  return scale = most / 127.0F == 0.0F ? 1.0F : most / 127.0F;
}

float inverse_rms(const float* x, int64_t cols, float eps) {
  float sum = 0.0F;
  for (int64_t c = 0; c < cols; ++c) sum += x[c] * x[c];
  return 1.0F / std::sqrt(sum / static_cast<float>(cols) + eps);
}

}  // namespace

void rms_norm(ConstF32View x, const RmsNormArgs& args, MutableActivation out) {
  for (int64_t r = 0; r < x.rows; ++r) {
    const float scale = inverse_rms(x.row(r), x.cols, args.eps);
    for (int64_t c = 0; c < x.cols; ++c) out.store(r, c, x.at(r, c) * scale * args.weight[c]);
  }
}

void add_rows(F32View residual, ConstF32View x) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) residual.at(r, c) += x.at(r, c);
}

void add_rms_norm(F32View residual, const Addends& addends, const RmsNormArgs& args, MutableActivation out) {
  for (int64_t r = 0; r < residual.rows; ++r)
    for (int64_t c = 0; c < residual.cols; ++c) {
      float total = addends.parts[0].at(addends.first_row + r, c);
      for (int64_t p = 1; p < addends.count; ++p) total += addends.parts[p].at(addends.first_row + r, c);
      residual.at(r, c) += total;
    }
  rms_norm(residual, args, out);
}

void head_rms_norm(F32View x, int heads, int head_dim, const RmsNormArgs& args) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int h = 0; h < heads; ++h) {
      float* head = x.row(r) + static_cast<int64_t>(h) * head_dim;
      const float scale = inverse_rms(head, head_dim, args.eps);
      for (int c = 0; c < head_dim; ++c) head[c] = head[c] * scale * args.weight[c];
    }
}

void rope(F32View x, int heads, const RopeArgs& args) {
  const int half = args.rotary_dim / 2;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* cosines = args.cos_sin.row(r);
    const float* sines = cosines + half;
    for (int h = 0; h < heads; ++h) {
      float* head = x.row(r) + static_cast<int64_t>(h) * args.head_dim;
      for (int i = 0; i < half; ++i) {
        float& first = args.neox ? head[i] : head[2 * i];
        float& second = args.neox ? head[i + half] : head[2 * i + 1];
        const float a = first;
        const float b = second;
        first = a * cosines[i] - b * sines[i];
        second = b * cosines[i] + a * sines[i];
      }
    }
  }
}

void silu_and_mul(ConstF32View gate_up, MutableActivation out) {
  const int64_t inner = gate_up.cols / 2;
  for (int64_t r = 0; r < gate_up.rows; ++r)
    for (int64_t c = 0; c < inner; ++c) {
      const float gate = gate_up.at(r, c);
      out.store(r, c, gate / (1.0F + std::exp(-gate)) * gate_up.at(r, inner + c));
    }
}

void round_to_bf16(ConstF32View x, MutableActivation out) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) out.store(r, c, x.at(r, c));
}

void store_kv(ConstF32View x, Run<int64_t> slots, KvTarget target) {
  for (int64_t t = 0; t < slots.size; ++t)
    for (int64_t c = 0; c < x.cols; ++c) {
      const int64_t i = slots.data[t] * target.slot_stride + c;
      switch (target.dtype) {
        case DType::kF32:
          static_cast<float*>(target.base)[i] = x.at(t, c);
          break;
        case DType::kBF16:
          static_cast<uint16_t*>(target.base)[i] = f32_to_bf16(x.at(t, c));
          break;
        case DType::kF8E4M3:
          static_cast<uint8_t*>(target.base)[i] = f32_to_e4m3(x.at(t, c) / target.scale);
          break;
        case DType::kF8E5M2:
          static_cast<uint8_t*>(target.base)[i] = f32_to_e5m2(x.at(t, c) / target.scale);
          break;
        default:
          static_cast<int8_t*>(target.base)[i] = nearest_int8(x.at(t, c) / int8_scale(x, t, c, slots.data[t], target));
      }
    }
}

int64_t argmax(Run<float> values) {
  int64_t best = -1;
  for (int64_t i = 0; i < values.size; ++i)
    if (!std::isnan(values.data[i]) && (best < 0 || values.data[i] > values.data[best])) best = i;
  return best;
}

double log_sum_exp(Run<float> values) {
  float maximum = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < values.size; ++i) maximum = std::fmax(maximum, values.data[i]);
  if (std::isinf(maximum)) return static_cast<double>(maximum);
  double sum = 0.0;
  for (int64_t i = 0; i < values.size; ++i) sum += std::exp(static_cast<double>(values.data[i] - maximum));
  return static_cast<double>(maximum) + std::log(sum);
}

}  // namespace lamina::kernels::ref

namespace lamina::kernels {

constinit const Kernels kRefKernels{
    .isa = Isa::kRef,
    .quantised = &kRefQuantised,
    .pack_rows = ref::pack_rows,
    .unpack_row = ref::unpack_row,
    .matmul_panels = ref::matmul_panels,
    .rms_norm = ref::rms_norm,
    .add_rms_norm = ref::add_rms_norm,
    .add_rows = ref::add_rows,
    .head_rms_norm = ref::head_rms_norm,
    .rope = ref::rope,
    .silu_and_mul = ref::silu_and_mul,
    .round_to_bf16 = ref::round_to_bf16,
    .store_kv = ref::store_kv,
    .attention_item = ref::attention_item,
    .argmax = ref::argmax,
    .log_sum_exp = ref::log_sum_exp,
    .quantise_weights = ref::quantise_weights,
    .dot_burst = ref::dot_burst,
    .read_lines = ref::read_lines,
};

}  // namespace lamina::kernels
