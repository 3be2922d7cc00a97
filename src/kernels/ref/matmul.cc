#include <algorithm>
#include <array>

#include "kernels/ref/ref.h"

namespace lamina::kernels::ref {
namespace {

float load(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF32: {
      float value;
      __builtin_memcpy(&value, static_cast<const char*>(data) + index * 4, 4);
      return value;
    }
    case DType::kF16:
    case DType::kBF16: {
      uint16_t bits;
      __builtin_memcpy(&bits, static_cast<const char*>(data) + index * 2, 2);
      return dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
    default:
      check_failed(__FILE__, __LINE__, "dtype", "weights are f32, f16 or bf16");
  }
}

/// Element index of W[row, k] inside the packed copy.
int64_t packed_index(const PackedMatrix& packed, int64_t row, int64_t k) {
  const int64_t panel = row / kPanelRows * packed.padded_k() * kPanelRows;
  const int64_t r = row % kPanelRows;
  return packed.storage == DType::kBF16 ? panel + (k / 2 * kPanelRows + r) * 2 + k % 2 : panel + k * kPanelRows + r;
}

void store(const PackedMatrix& packed, int64_t row, int64_t k, float value) {
  const int64_t i = packed_index(packed, row, k);
  switch (packed.storage) {
    case DType::kBF16:
      static_cast<uint16_t*>(packed.data)[i] = f32_to_bf16(value);
      return;
    case DType::kF16:
      static_cast<uint16_t*>(packed.data)[i] = f32_to_f16(value);
      return;
    default:
      static_cast<float*>(packed.data)[i] = value;
  }
}

}  // namespace

void pack_rows(const PackedMatrix& packed, int64_t row, int64_t count, const void* src, DType src_dtype, int64_t src_stride) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t k = 0; k < packed.padded_k(); ++k)
      store(packed, row + r, k, k < packed.k ? load(src, src_dtype, r * src_stride + k) : 0.0F);
  if (row + count != packed.n) return;
  for (int64_t r = packed.n; r < packed.panels() * kPanelRows; ++r)
    for (int64_t k = 0; k < packed.padded_k(); ++k) store(packed, r, k, 0.0F);
}

void unpack_row(const PackedMatrix& packed, int64_t row, float* out) {
  for (int64_t k = 0; k < packed.k; ++k) out[k] = load(packed.data, packed.storage, packed_index(packed, row, k));
}

void matmul_panels(const Activation& x, const PackedMatrix& packed, const float* bias, F32View out, int64_t panel_begin,
                   int64_t panel_end) {
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    const int64_t n0 = panel * kPanelRows;
    const int64_t columns = std::min(kPanelRows, packed.n - n0);
    for (int64_t m = 0; m < x.rows; ++m) std::fill_n(out.row(m) + n0, columns, 0.0F);
    for (int64_t k = 0; k < packed.k; ++k) {
      std::array<float, kPanelRows> w{};
      for (int64_t c = 0; c < columns; ++c) w[static_cast<size_t>(c)] = load(packed.data, packed.storage, packed_index(packed, n0 + c, k));
      for (int64_t m = 0; m < x.rows; ++m) {
        const float a = load(x.data, x.dtype, m * x.stride + k);
        float* sum = out.row(m) + n0;
        for (int64_t c = 0; c < columns; ++c) sum[c] += a * w[static_cast<size_t>(c)];
      }
    }
    if (bias == nullptr) continue;
    for (int64_t m = 0; m < x.rows; ++m)
      for (int64_t c = 0; c < columns; ++c) out.at(m, n0 + c) += bias[n0 + c];
  }
}

double dot_burst(int64_t rounds) {
  constexpr int kChains = 16;
  std::array<float, kChains> sum{};
  for (float& s : sum) __asm__ volatile("" : "+x"(s));  // unknown values: no sum can be derived from another
  float x = 0.0F;
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__ volatile("" : "+x"(x));
    for (float& s : sum) s += x * x;
  }
  for (float& s : sum) __asm__ volatile("" : "+x"(s));
  return static_cast<double>(rounds) * kChains * 2;
}

uint64_t read_lines(const void* data, int64_t count) {
  const auto* words = static_cast<const uint64_t*>(data);
  uint64_t sum[8] = {};
  for (int64_t line = 0; line < count; ++line)
    for (int i = 0; i < 8; ++i) sum[i] ^= words[line * 8 + i];
  return sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7];
}

}  // namespace lamina::kernels::ref
