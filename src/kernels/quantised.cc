#include "kernels/quantised.h"

#include <cmath>

#include "base/check.h"
#include "kernels/float8.h"
#include "kernels/words.h"

namespace lamina::kernels {
namespace {

uint32_t* word_at(const CodedMatrix& m, int64_t words, int64_t row) {
  return static_cast<uint32_t*>(m.codes) + row / kPanelRows * words * kPanelRows + row % kPanelRows;
}

/// The word of `count` codes; the absent rest are 0.
template <Code kCode>
uint32_t make_word(const uint8_t* src, int64_t count) {
  uint32_t word = 0;
  for (int i = 0; i < word_codes(kCode); ++i)
    if (i < count) word |= static_cast<uint32_t>(src[i]) << code_shift(kCode, i);
  return word;
}

template <Code kCode>
void pack_row(const CodedMatrix& m, const uint8_t* src, uint32_t* out) {
  constexpr int64_t kCodes = word_codes(kCode);
  for (int64_t run = 0, begin = 0; run < m.runs; begin = m.run_end[run++]) {
    const int64_t end = m.run_end[run];
    int64_t k = begin;
    for (; k + kCodes <= end; k += kCodes, out += kPanelRows) *out = make_word<kCode>(src + k, kCodes);
    if (k < end) *out = make_word<kCode>(src + k, end - k), out += kPanelRows;
  }
}

using PackRow = void (*)(const CodedMatrix& m, const uint8_t* src, uint32_t* out);
constexpr PackRow kPackRow[] = {pack_row<Code::kInt8>, pack_row<Code::kUInt8>, pack_row<Code::kInt4>, pack_row<Code::kFp8E4m3>,
                                pack_row<Code::kFp4E2m1>};

/// Calls fill(index of (row, run)) for each run of rows [row, row + count), then clear(index) for those of the rows beyond n that follow.
template <class Fill, class Clear>
void each_run(const CodedMatrix& m, int64_t row, int64_t count, Fill&& fill, Clear&& clear) {
  const auto index = [&](int64_t r, int64_t run) { return (r / kPanelRows * m.runs + run) * kPanelRows + r % kPanelRows; };
  for (int64_t r = 0; r < count; ++r)
    for (int64_t run = 0; run < m.runs; ++run) fill(index(row + r, run), r, run);
  if (row + count != m.n) return;
  for (int64_t r = m.n; r < m.panels() * kPanelRows; ++r)
    for (int64_t run = 0; run < m.runs; ++run) clear(index(r, run));
}

void store_scale(DType dtype, void* scales, int64_t i, float scale) {
  switch (dtype) {
    case DType::kF32:
      static_cast<float*>(scales)[i] = scale;
      return;
    case DType::kF16:
      static_cast<uint16_t*>(scales)[i] = f32_to_f16(scale);
      return;
    case DType::kBF16:
      static_cast<uint16_t*>(scales)[i] = f32_to_bf16(scale);
      return;
    case DType::kF8E4M3:
      static_cast<uint8_t*>(scales)[i] = f32_to_e4m3(scale);
      return;
    default: {
      int exponent = 0;
      LAMINA_CHECK(dtype == DType::kU8 && std::frexp(scale, &exponent) == 0.5F, "a scale of E8M0 must be a power of two");
      static_cast<uint8_t*>(scales)[i] = static_cast<uint8_t>(exponent - 1 + 127);
    }
  }
}

float load_scale(DType dtype, const void* scales, int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(scales)[i];
    case DType::kF16:
      return f16_to_f32(static_cast<const uint16_t*>(scales)[i]);
    case DType::kBF16:
      return bf16_to_f32(static_cast<const uint16_t*>(scales)[i]);
    case DType::kF8E4M3:
      return e4m3_to_f32(static_cast<const uint8_t*>(scales)[i]);
    default:
      LAMINA_CHECK(dtype == DType::kU8, "scales are f32, f16, bf16, e4m3 or e8m0");
      return std::ldexp(1.0F, static_cast<const uint8_t*>(scales)[i] - 127);
  }
}

}  // namespace

int64_t row_words(const CodedMatrix& matrix) {
  int64_t words = 0;
  for (int64_t run = 0, begin = 0; run < matrix.runs; begin = matrix.run_end[run++])
    words += run_words(matrix.code, matrix.run_end[run] - begin);
  return words;
}

float decode(Code code, uint8_t byte) {
  constexpr float kE2m1[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  switch (code) {
    case Code::kInt8:
      return static_cast<float>(static_cast<int8_t>(byte));
    case Code::kFp8E4m3:
      return e4m3_to_f32(byte);
    case Code::kFp4E2m1:
      return (byte & 8) != 0 ? -kE2m1[byte & 7] : kE2m1[byte & 7];
    default:
      return static_cast<float>(byte);
  }
}

size_t CodedMatrix::code_bytes() const { return static_cast<size_t>(panels() * row_words(*this) * kPanelRows) * sizeof(uint32_t); }
size_t CodedMatrix::scale_bytes() const { return static_cast<size_t>(panels() * runs * kPanelRows * dtype_bytes(scale_dtype)); }
size_t CodedMatrix::zero_bytes() const { return static_cast<size_t>(panels() * runs * kPanelRows); }

CodedMatrix CodedMatrix::part(int64_t panel, int64_t count) const {
  const auto skip = [&](size_t all) { return all / static_cast<size_t>(panels()) * static_cast<size_t>(panel); };
  CodedMatrix out = *this;
  out.n = count * kPanelRows;
  out.codes = static_cast<char*>(codes) + skip(code_bytes());
  out.scales = static_cast<char*>(scales) + skip(scale_bytes());
  if (zeros != nullptr) out.zeros = zeros + skip(zero_bytes());
  if (row_scales != nullptr) out.row_scales = row_scales + panel * kPanelRows;
  return out;
}

void pack_codes(const CodedMatrix& matrix, int64_t row, int64_t count, const uint8_t* src, int64_t stride) {
  const int64_t words = row_words(matrix);
  for (int64_t r = 0; r < count; ++r) kPackRow[static_cast<int>(matrix.code)](matrix, src + r * stride, word_at(matrix, words, row + r));
  if (row + count != matrix.n) return;
  for (int64_t r = matrix.n; r < matrix.panels() * kPanelRows; ++r)
    for (int64_t word = 0; word < words; ++word) word_at(matrix, words, r)[word * kPanelRows] = 0;
}

void pack_scales(const CodedMatrix& matrix, int64_t row, int64_t count, const float* src, int64_t stride) {
  each_run(
      matrix, row, count,
      [&](int64_t i, int64_t r, int64_t run) { store_scale(matrix.scale_dtype, matrix.scales, i, src[r * stride + run]); },
      [&](int64_t i) { store_scale(matrix.scale_dtype, matrix.scales, i, 1.0F); });
}

void pack_zeros(const CodedMatrix& matrix, int64_t row, int64_t count, const uint8_t* src, int64_t stride) {
  each_run(
      matrix, row, count, [&](int64_t i, int64_t r, int64_t run) { matrix.zeros[i] = src[r * stride + run]; },
      [&](int64_t i) { matrix.zeros[i] = 0; });
}

RunFactors run_factors(const CodedMatrix& m, int64_t row, int64_t run) {
  const int64_t i = (row / kPanelRows * m.runs + run) * kPanelRows + row % kPanelRows;
  return {.scale = load_scale(m.scale_dtype, m.scales, i), .zero = m.zeros != nullptr ? m.zeros[i] : m.zero};
}

void unpack_codes(const CodedMatrix& matrix, int64_t row, float* out) {
  const float row_scale = matrix.row_scales != nullptr ? matrix.row_scales[row] : 1.0F;
  const CodeRow codes(matrix, row);
  for (int64_t run = 0, begin = 0, word = 0; run < matrix.runs; ++run) {
    const RunFactors factors = run_factors(matrix, row, run);
    const auto zero = static_cast<float>(factors.zero);
    const int64_t length = matrix.run_end[run] - begin;
    for (int64_t i = 0; i < length; ++i) out[begin + i] = (decode(matrix.code, codes.at(word, i)) - zero) * factors.scale * row_scale;
    begin += length;
    word += run_words(matrix.code, length);
  }
}

void scales_of_maxima(DType codes, F32View maxima) {
  LAMINA_CHECK(codes == DType::kU8 || codes == DType::kBF16, "codes of activations are u8 or values in bf16");
  const float largest = codes == DType::kU8 ? 127.0F : 448.0F;
  for (int64_t r = 0; r < maxima.rows; ++r)
    for (int64_t i = 0; i < maxima.cols; ++i) {
      const float scale = maxima.at(r, i) / largest;
      maxima.at(r, i) = scale == 0.0F ? 1.0F : scale;
    }
}

void check_input(const Activation& x, const CodedMatrix& w) {
  LAMINA_CHECK(x.cols == w.k, "matmul_coded: columns of x and of the weights differ");
  LAMINA_CHECK(w.runs >= 1 && w.run_end[w.runs - 1] == w.k, "matmul_coded: the last run must end at the last column");
  LAMINA_CHECK(x.dtype == DType::kF32 || x.dtype == DType::kBF16 || x.dtype == DType::kU8, "matmul_coded: x is f32, bf16 or u8");
  LAMINA_CHECK(x.dtype != DType::kU8 || w.code == Code::kInt8 || w.code == Code::kInt4, "matmul_coded: int8 x needs int8 or int4 codes");
  LAMINA_CHECK(x.scales.data == nullptr || x.scales.cols == 1 || x.scales.cols == w.runs, "matmul_coded: runs of x and of the weights");
}

void matmul_coded(const Kernels& kernels, ThreadTeam& team, const Activation& x, const CodedMatrix& w, const float* bias, F32View out) {
  check_input(x, w);
  LAMINA_CHECK(out.rows == x.rows && out.cols >= w.n, "matmul_coded: output shape");
  if (x.rows == 0) return;
  team.parallel_for(w.panels(), 1, [&](int64_t begin, int64_t end, int) { kernels.quantised->matmul_panels(x, w, bias, out, begin, end); });
}

}  // namespace lamina::kernels
