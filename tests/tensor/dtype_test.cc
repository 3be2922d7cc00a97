#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace lamina {
namespace {

uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

TEST(DType, NamesAndSizesAgree) {
  for (int i = 0; i <= static_cast<int>(DType::kF8E8M0); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(*parse_safetensors_dtype(dtype_name(dtype)), dtype);
    EXPECT_EQ(*parse_torch_dtype(torch_dtype_name(dtype)), dtype);
    EXPECT_GE(dtype_bytes(dtype), 1);
  }
  EXPECT_STREQ(dtype_name(DType::kF8E4M3), "F8_E4M3");
  EXPECT_STREQ(torch_dtype_name(DType::kBF16), "bfloat16");
  EXPECT_EQ(dtype_bytes(DType::kF64), 8);
  EXPECT_EQ(*parse_torch_dtype("half"), DType::kF16);
  EXPECT_EQ(*parse_torch_dtype("torch.bfloat16"), DType::kBF16);
}

TEST(DType, UnknownNamesAreRefusedWithTheSupportedOnes) {
  EXPECT_TRUE(parse_safetensors_dtype("F4").error().message.starts_with("dtype 'F4' is not supported; supported: F32, F16, BF16"));
  EXPECT_NE(parse_torch_dtype("bf16").error().message.find("bfloat16"), std::string::npos);
}

// The value of a half by the definition of the format, in double.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(F16, EveryHalfExpandsExactlyAndRoundTrips) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const auto bits = static_cast<uint16_t>(h);
    const float wide = f16_to_f32(bits);
    const bool nan = (bits & 0x7C00) == 0x7C00 && (bits & 0x3FF) != 0;
    ASSERT_EQ(f32_to_f16(wide), nan ? bits | 0x200 : bits) << std::hex << h;  // as the processors do, a NaN becomes quiet
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0);
    if ((bits & 0x7C00) != 0x7C00)
      ASSERT_EQ(wide, half_value(bits)) << std::hex << h;
    else if ((bits & 0x3FF) == 0)
      ASSERT_TRUE(std::isinf(wide));
    else
      ASSERT_TRUE(std::isnan(wide));
  }
}

// Between two neighbouring halves: below the middle the lower, above it the upper, on it the even one.
TEST(F16, RoundsToNearestEven) {
  for (uint16_t low = 0; low < 0x7BFF; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const auto middle = static_cast<float>((half_value(low) + half_value(high)) / 2);  // exact: one more bit than a half has
    const uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(f32_to_f16(middle), even) << low;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << low;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), low) << low;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e30F)), high) << low;
  }
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-3e38F), 0xFC00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(from_bits(0x7F800001)))));
}

TEST(BF16, EveryBf16RoundTrips) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    const float wide = bf16_to_f32(bits);
    if (std::isnan(wide))
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(wide))));
    else
      ASSERT_EQ(f32_to_bf16(wide), bits);
  }
}

TEST(BF16, RoundsToNearestEven) {
  std::mt19937 random(11);
  for (int i = 0; i < 100000; ++i) {
    const float value = from_bits(random());
    if (std::isnan(value)) continue;
    const uint32_t down = bits_of(value) & 0xFFFF0000U, rest = bits_of(value) & 0xFFFFU;
    const bool up = rest > 0x8000U || (rest == 0x8000U && (down & 0x10000U) != 0);
    ASSERT_EQ(f32_to_bf16(value), (down + (up ? 0x10000U : 0)) >> 16) << bits_of(value);
  }
  EXPECT_EQ(f32_to_bf16(from_bits(0x3F808000)), 0x3F80);
  EXPECT_EQ(f32_to_bf16(from_bits(0x3F818000)), 0x3F82);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(from_bits(0x7F800001)))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(from_bits(0xFFFFFFFF)))));
}

}  // namespace
}  // namespace lamina
