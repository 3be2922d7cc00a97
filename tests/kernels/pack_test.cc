#include <cmath>
#include <cstring>

#include "tests/kernels/support.h"

namespace lamina::kernels::testing {
namespace {

struct Conversion {
  DType from;
  DType to;
};
constexpr Conversion kConversions[] = {{DType::kF32, DType::kF32},  {DType::kF32, DType::kF16},  {DType::kF32, DType::kBF16},
                                       {DType::kF16, DType::kF32},  {DType::kF16, DType::kF16},  {DType::kF16, DType::kBF16},
                                       {DType::kBF16, DType::kF32}, {DType::kBF16, DType::kF16}, {DType::kBF16, DType::kBF16}};

/// The bytes of `values` in `dtype`.
std::vector<uint8_t> encode(const std::vector<float>& values, DType dtype) {
  std::vector<uint8_t> out(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  const std::vector<uint16_t> half = dtype == DType::kF16 ? to_f16(values) : to_bf16(values);
  std::memcpy(out.data(), dtype == DType::kF32 ? static_cast<const void*>(values.data()) : half.data(), out.size());
  return out;
}

float through(float value, DType dtype) {
  if (dtype == DType::kF16) return f16_to_f32(f32_to_f16(value));
  if (dtype == DType::kBF16) return bf16_to_f32(f32_to_bf16(value));
  return value;
}

class Pack : public KernelTest {};

TEST_P(Pack, EveryConversionComesBackRowByRow) {
  Random random(21);
  SCOPED_TRACE(random.seed_text());
  for (const Conversion conversion : kConversions)
    for (int round = 0; round < 6; ++round) {
      const int64_t n = random.integer(1, 80);
      const int64_t k = random.integer(1, 100);
      const std::vector<float> values = random.normal(n * k);
      const std::vector<uint8_t> src = encode(values, conversion.from);
      const Packed packed = pack(kernels, {.storage = conversion.to, .compute = DType::kF32, .n = n, .k = k}, src.data(), conversion.from);
      std::vector<float> row(static_cast<size_t>(k));
      for (int64_t r = 0; r < n; ++r) {
        kernels.unpack_row(packed.matrix, r, row.data());
        for (int64_t i = 0; i < k; ++i)
          ASSERT_EQ(row[static_cast<size_t>(i)], through(through(values[static_cast<size_t>(r * k + i)], conversion.from), conversion.to))
              << dtype_name(conversion.from) << " to " << dtype_name(conversion.to) << " row " << r << " column " << i;
      }
    }
}

TEST_P(Pack, AllPathsWriteTheSameBytes) {
  Random random(22);
  SCOPED_TRACE(random.seed_text());
  for (const Conversion conversion : kConversions) {
    const std::vector<uint8_t> src = encode(random.normal(70 * 45), conversion.from);
    const Packed mine = pack(kernels, {.storage = conversion.to, .compute = DType::kF32, .n = 70, .k = 45}, src.data(), conversion.from);
    const Packed reference =
        pack(table(Isa::kRef), {.storage = conversion.to, .compute = DType::kF32, .n = 70, .k = 45}, src.data(), conversion.from);
    EXPECT_EQ(std::memcmp(mine.buffer.data(), reference.buffer.data(), mine.matrix.bytes()), 0)
        << dtype_name(conversion.from) << " to " << dtype_name(conversion.to);
  }
}

TEST_P(Pack, PiecesOfAnyHeightFromUnalignedColumnSlicesGiveTheWhole) {
  Random random(23);
  SCOPED_TRACE(random.seed_text());
  for (const Conversion conversion : kConversions) {
    const int64_t n = 90, k = 51, stride = 77, skip = 13;
    std::vector<uint8_t> bytes = encode(random.normal(n * stride), conversion.from);
    bytes.insert(bytes.begin(), 1, 0);  // safetensors promise no alignment
    const int size = dtype_bytes(conversion.from);
    Packed whole = make_packed({.storage = conversion.to, .compute = DType::kF32, .n = n, .k = k});
    kernels.pack_rows(whole.matrix, 0, n, bytes.data() + 1 + skip * size, conversion.from, stride);
    Packed parts = make_packed({.storage = conversion.to, .compute = DType::kF32, .n = n, .k = k});
    std::memset(parts.buffer.data(), 0xFF, parts.matrix.bytes());  // pads must be cleared, not assumed clear
    for (int64_t row = 0; row < n;) {
      const int64_t count = std::min(n - row, random.integer(1, 40));
      kernels.pack_rows(parts.matrix, row, count, bytes.data() + 1 + (row * stride + skip) * size, conversion.from, stride);
      row += count;
    }
    EXPECT_EQ(std::memcmp(parts.buffer.data(), whole.buffer.data(), whole.matrix.bytes()), 0)
        << dtype_name(conversion.from) << " to " << dtype_name(conversion.to);
  }
}

TEST_P(Pack, CopiesEveryBf16ValueUnchanged) {
  std::vector<uint16_t> src(65536);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<uint16_t>(i);
  const Packed packed = pack(kernels, {.storage = DType::kBF16, .compute = DType::kF32, .n = 64, .k = 1024}, src.data(), DType::kBF16);
  std::vector<float> row(1024);
  for (int64_t r = 0; r < 64; ++r) {
    kernels.unpack_row(packed.matrix, r, row.data());
    for (size_t i = 0; i < row.size(); ++i) {
      const float expected = bf16_to_f32(src[static_cast<size_t>(r) * 1024 + i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(row[i]));
      } else {
        ASSERT_EQ(__builtin_bit_cast(uint32_t, row[i]), __builtin_bit_cast(uint32_t, expected));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Pack, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
