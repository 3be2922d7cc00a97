#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "kernels/float8.h"
#include "tests/kernels/coded_support.h"

namespace lamina::kernels::testing {
namespace {

TEST(CodedPack, EveryRowComesBackAsLevelsTimesScales) {
  Random random(61);
  SCOPED_TRACE(random.seed_text());
  for (const Code code : kCodes)
    for (int round = 0; round < 12; ++round) {
      const int64_t n = random.integer(1, 80), k = random.integer(1, 200);
      const CodedWeights w(random, random_shape(random, code, DType::kF32, n, k));
      std::vector<float> row(static_cast<size_t>(k));
      for (int64_t r = 0; r < n; ++r) {
        unpack_codes(w.matrix(), r, row.data());
        for (int64_t run = 0, i = 0; run < w.matrix().runs; ++run)
          for (; i < w.shape.run_end[static_cast<size_t>(run)]; ++i) {
            const double exact = w.level(r, i, run) * w.scale(r, run);
            ASSERT_NEAR(static_cast<double>(row[static_cast<size_t>(i)]), exact, std::fabs(exact) * 0x1p-22)
                << code_name(code) << " row " << r << " column " << i;
          }
      }
    }
}

TEST(CodedPack, PiecesOfAnyHeightGiveTheWholeAndClearTheRowsBeyond) {
  Random random(62);
  SCOPED_TRACE(random.seed_text());
  for (const Code code : kCodes) {
    CodedShape shape = random_shape(random, code, DType::kF32, 90, 51);
    shape.zeros = code == Code::kInt4 || code == Code::kUInt8;
    const CodedWeights whole(random, shape);
    CodedMatrix parts = whole.matrix();
    auto codes = Buffer::allocate(parts.code_bytes());
    auto scales = Buffer::allocate(parts.scale_bytes());
    auto zeros = Buffer::allocate(std::max<size_t>(1, parts.zero_bytes()));
    ASSERT_TRUE(codes.ok() && scales.ok() && zeros.ok());
    for (Buffer* buffer : {&*codes, &*scales, &*zeros}) std::memset(buffer->data(), 0xFF, buffer->size());
    parts.codes = codes->data(), parts.scales = scales->data(), parts.zeros = shape.zeros ? zeros->as<uint8_t>() : nullptr;
    for (int64_t row = 0; row < shape.n;) {
      const int64_t count = std::min(shape.n - row, random.integer(1, 40));
      pack_codes(parts, row, count, whole.codes.data() + row * shape.k, shape.k);
      pack_scales(parts, row, count, whole.scales.data() + row * parts.runs, parts.runs);
      if (shape.zeros) pack_zeros(parts, row, count, whole.zeros.data() + row * parts.runs, parts.runs);
      row += count;
    }
    EXPECT_EQ(std::memcmp(parts.codes, whole.matrix().codes, parts.code_bytes()), 0) << code_name(code);
    EXPECT_EQ(std::memcmp(parts.scales, whole.matrix().scales, parts.scale_bytes()), 0) << code_name(code);
    if (shape.zeros) {
      EXPECT_EQ(std::memcmp(parts.zeros, whole.matrix().zeros, parts.zero_bytes()), 0);
    }
  }
}

TEST(CodedPack, BytesAreThoseOfTheFormat) {
  const std::vector<int32_t> groups{32, 64};
  CodedMatrix m{.code = Code::kInt4, .n = 64, .k = 64, .runs = 2, .run_end = groups.data(), .scale_dtype = DType::kF16};
  EXPECT_EQ(m.code_bytes(), 64U * 64 / 2);
  EXPECT_EQ(m.scale_bytes(), 64U * 2 * 2);
  EXPECT_EQ(m.zero_bytes(), 64U * 2);
  m.code = Code::kFp8E4m3, m.n = 33;  // the panel of row 32 is whole
  EXPECT_EQ(m.code_bytes(), 64U * 64);
}

TEST(Float8, E4m3IsWhatItsFieldsSay) {
  std::set<float> seen;
  for (int bits = 0; bits < 256; ++bits) {
    const float value = e4m3_to_f32(static_cast<uint8_t>(bits));
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const int exponent = bits >> 3 & 15;
    const double size = exponent == 0 ? (bits & 7) * 0x1p-9 : std::ldexp(8 + (bits & 7), exponent - 10);
    EXPECT_EQ(static_cast<double>(value), bits < 128 ? size : -size);
    EXPECT_EQ(f32_to_e4m3(value), bits);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 253U);  // both zeros are equal
  EXPECT_EQ(*seen.rbegin(), 448.0F);
}

TEST(Float8, E5m2IsTheUpperHalfOfAnF16) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = e5m2_to_f32(static_cast<uint8_t>(bits));
    if ((bits & 0x7F) > 0x7C) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(value, f16_to_f32(static_cast<uint16_t>(bits << 8)));
      EXPECT_EQ(f32_to_e5m2(value), std::isinf(value) ? bits - 1 : bits);  // saturates
    }
  }
}

template <class Decode>
void expect_nearest_even(uint8_t (*encode)(float), Decode decode, int largest) {
  for (int bits = 0; bits < largest; ++bits) {
    const float low = decode(static_cast<uint8_t>(bits)), high = decode(static_cast<uint8_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(encode(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(encode(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(encode(std::nextafter(middle, 1e9F)), bits + 1);
    EXPECT_EQ(encode(-middle), 0x80 + (bits % 2 == 0 ? bits : bits + 1));
  }
  EXPECT_EQ(encode(1e9F), largest);
  EXPECT_EQ(encode(-std::numeric_limits<float>::infinity()), 0x80 + largest);
  EXPECT_TRUE(std::isnan(decode(encode(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Float8, RoundsToNearestEvenAndSaturates) {
  expect_nearest_even(f32_to_e4m3, e4m3_to_f32, 0x7E);
  expect_nearest_even(f32_to_e5m2, e5m2_to_f32, 0x7B);
}

}  // namespace
}  // namespace lamina::kernels::testing
