#pragma once
// The 8-bit floats of the OCP: E4M3 (no infinities; 0x7F and 0xFF are NaN, largest 448) and E5M2 (as IEEE, largest finite 57344).

#include <cstdint>

namespace lamina::kernels {

float e4m3_to_f32(uint8_t bits);
float e5m2_to_f32(uint8_t bits);
/// Round to nearest even; what is larger becomes the largest finite number, NaN stays NaN.
uint8_t f32_to_e4m3(float value);
uint8_t f32_to_e5m2(float value);

}  // namespace lamina::kernels
