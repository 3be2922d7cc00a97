#include "kernels/quantise_weights.h"

#include <algorithm>
#include <cmath>

#include "kernels/float8.h"
#include "kernels/ref/ref.h"

namespace lamina::kernels::ref {
namespace {

struct Group {
  const float* w;
  int64_t count;
};

/// The value of largest size, the first of several; NaN counts as above infinity.
float extreme(const Group& group) {
  float best = 0.0F;
  for (int64_t k = 0; k < group.count; ++k) {
    if (std::isnan(group.w[k])) return group.w[k];
    if (std::fabs(group.w[k]) > std::fabs(best)) best = group.w[k];
  }
  return best;
}

float rounded(float scale, DType dtype) { return dtype == DType::kF32 ? scale : bf16_to_f32(f32_to_bf16(scale)); }

float int4_level(float w, float scale) { return std::clamp(std::nearbyint(w * (1.0F / scale)), -8.0F, 7.0F); }

float squared_error(const Group& group, float scale) {
  float sum = 0.0F;
  for (int64_t k = 0; k < group.count; ++k) {
    const float error = group.w[k] - int4_level(group.w[k], scale) * scale;
    sum += error * error;
  }
  return sum;
}

float fitted_scale(const Group& group, float scale) {
  float product = 0.0F, square = 0.0F;
  for (int64_t k = 0; k < group.count; ++k) {
    const float level = int4_level(group.w[k], scale);
    product += group.w[k] * level;
    square += level * level;
  }
  return product / square;
}

float int4_scale(const Group& group, float largest, DType dtype) {
  const float unit = largest / -7.0F;
  float best = rounded(unit, dtype);
  float least_error = squared_error(group, best);
  const auto attempt = [&](float scale) {
    const float error = squared_error(group, scale);
    if (error < least_error) best = scale, least_error = error;
  };
  for (const float step : kInt4Steps) attempt(rounded(unit * step, dtype));
  for (int i = 0; i < kInt4Refinements; ++i) attempt(rounded(fitted_scale(group, best), dtype));
  return best;
}

uint8_t code_of(Code code, float w, float scale) {
  if (code == Code::kFp8E4m3) return f32_to_e4m3(w / scale);
  if (code == Code::kInt4) return static_cast<uint8_t>(int4_level(w, scale) + 8.0F);
  return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(w / scale), -127.0F, 127.0F)));
}

/// The scale of a group, whose codes go to `out`.
float quantise_group(const WeightQuant& rule, const Group& group, uint8_t* out) {
  const float largest = extreme(group);
  std::fill(out, out + group.count, rule.code == Code::kInt4 ? 8 : 0);
  if (!std::isfinite(largest)) return largest;
  if (std::fabs(largest) < kLeastWeight) return 1.0F;
  const float scale = rule.code == Code::kInt4   ? int4_scale(group, largest, rule.scale_dtype)
                      : rule.code == Code::kInt8 ? rounded(std::fabs(largest) / 127.0F, rule.scale_dtype)
                                                 : rounded(std::fabs(largest) / 448.0F, rule.scale_dtype);
  for (int64_t k = 0; k < group.count; ++k) out[k] = code_of(rule.code, group.w[k], scale);
  return scale;
}

}  // namespace

void quantise_weights(const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales) {
  const int64_t size = rule.group == 0 ? rows.cols : rule.group;
  for (int64_t r = 0; r < rows.rows; ++r)
    for (int64_t c = 0; c < rows.cols; c += size) {
      const Group group{rows.row(r) + c, std::min(size, rows.cols - c)};
      scales.at(r, c / size) = quantise_group(rule, group, codes + r * rows.cols + c);
    }
}

}  // namespace lamina::kernels::ref
