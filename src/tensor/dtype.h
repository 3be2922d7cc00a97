#pragma once
// Element types of checkpoints, activations and caches.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace lamina {

enum class DType : uint8_t { kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI8, kU8, kI16, kI32, kI64, kF64, kBool, kF8E8M0 };

/// Bytes of one element.
int dtype_bytes(DType dtype);
/// The safetensors spelling: "F32", "BF16", "F8_E4M3", ...
const char* dtype_name(DType dtype);
Result<DType> parse_safetensors_dtype(std::string_view name);
/// The config and command-line spelling: "float32", "bfloat16", "float16", "half".
Result<DType> parse_torch_dtype(std::string_view name);
const char* torch_dtype_name(DType dtype);

/// Round to nearest even; NaN stays NaN.
inline uint16_t f32_to_bf16(float value) {
  uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  bits += 0x7FFFU + ((bits >> 16) & 1U);
  return static_cast<uint16_t>(bits >> 16);
}
inline float bf16_to_f32(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);

}  // namespace lamina
