#include "kernels/float8.h"

#include <cmath>
#include <limits>

#include "tensor/dtype.h"

namespace lamina::kernels {
namespace {

/// Sign, exponent and mantissa fields; a number is (1 or 0).mantissa * 2^(exponent - bias).
struct Format {
  int mantissa_bits;
  int bias;
  uint8_t largest;  // finite
  uint8_t nan;
};
constexpr Format kE4m3{.mantissa_bits = 3, .bias = 7, .largest = 0x7E, .nan = 0x7F};
constexpr Format kE5m2{.mantissa_bits = 2, .bias = 15, .largest = 0x7B, .nan = 0x7F};

float magnitude(const Format& format, int bits) {
  const int exponent = bits >> format.mantissa_bits;
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int whole = exponent == 0 ? mantissa : mantissa | 1 << format.mantissa_bits;
  return std::ldexp(static_cast<float>(whole), (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits);
}

uint8_t encode(const Format& format, float value) {
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return static_cast<uint8_t>(sign | format.nan);
  const float size = std::fabs(value);
  if (size >= magnitude(format, format.largest)) return static_cast<uint8_t>(sign | format.largest);
  int exponent = 1 - format.bias;  // of the subnormal numbers
  if (size >= std::ldexp(1.0F, exponent)) exponent = std::ilogb(size);
  // The mantissa as an integer, rounded; carrying into the exponent is what the fields do by themselves.
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(size, format.mantissa_bits - exponent)));
  return static_cast<uint8_t>(sign | (((exponent + format.bias - 1) << format.mantissa_bits) + mantissa));
}

}  // namespace

float e4m3_to_f32(uint8_t bits) {
  const uint32_t size = bits & 0x7FU;
  float value = static_cast<float>(size) * 0x1p-9F;  // subnormal
  if (size >= 8) value = __builtin_bit_cast(float, (size << 20) + (uint32_t{127 - 7} << 23));
  if (size == kE4m3.nan) value = std::numeric_limits<float>::quiet_NaN();
  return (bits & 0x80) != 0 ? -value : value;
}

float e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }  // the upper half of an f16

uint8_t f32_to_e4m3(float value) { return encode(kE4m3, value); }
uint8_t f32_to_e5m2(float value) { return encode(kE5m2, value); }

}  // namespace lamina::kernels
