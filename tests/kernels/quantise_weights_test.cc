#include "kernels/quantise_weights.h"

#include <cmath>
#include <limits>

#include "kernels/float8.h"
#include "tests/kernels/coded_support.h"

namespace lamina::kernels::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Quantised {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

Quantised quantised(const Kernels& kernels, const WeightQuant& rule, ConstF32View rows) {
  const int64_t groups = rule.groups(rows.cols);
  Quantised out{std::vector<uint8_t>(static_cast<size_t>(rows.rows * rows.cols), 0xEE),
                std::vector<float>(static_cast<size_t>(rows.rows * groups), -1.0F)};
  quantise_weights(kernels, rule, rows, out.codes.data(), F32View(out.scales.data(), rows.rows, groups));
  return out;
}

ConstF32View one_row(const std::vector<float>& w) { return {w.data(), 1, static_cast<int64_t>(w.size())}; }

WeightQuant random_rule(Random& random) {
  constexpr Code kKinds[] = {Code::kInt8, Code::kInt4, Code::kFp8E4m3};
  constexpr int64_t kGroups[] = {0, 32, 128, 7};
  WeightQuant rule{.code = kKinds[random.integer(0, 2)], .group = kGroups[random.integer(0, 3)]};
  if (rule.code == Code::kInt4 && rule.group == 0) rule.group = kMostInt4Group;
  rule.scale_dtype = random.integer(0, 1) == 0 ? DType::kF32 : DType::kBF16;
  return rule;
}

float value(const WeightQuant& rule, uint8_t code, float scale) {
  return (decode(rule.code, code) - (rule.code == Code::kInt4 ? 8.0F : 0.0F)) * scale;
}

class QuantiseWeights : public KernelTest {};

TEST_P(QuantiseWeights, EqualsTheReferenceToTheBit) {
  Random random(81);
  SCOPED_TRACE(random.seed_text());
  for (int round = 0; round < 60; ++round) {
    const WeightQuant rule = random_rule(random);
    const int64_t rows = random.integer(1, 9), cols = random.integer(1, 700), stride = cols + random.integer(0, 3);
    std::vector<float> w = random.normal(rows * stride, 0.03F);
    for (int64_t c = 0; c < std::min<int64_t>(cols, 40); ++c) w[static_cast<size_t>(c)] = 0.0F;
    if (round % 5 == 0) {
      for (float& x : w) x *= std::ldexp(1.0F, static_cast<int>(random.integer(-140, 110)));  // subnormal to almost infinite
    }
    const ConstF32View view(w.data(), rows, cols, stride);
    const Quantised expected = quantised(table(Isa::kRef), rule, view), found = quantised(kernels, rule, view);
    ASSERT_TRUE(same_bits(found.scales, expected.scales)) << round;
    ASSERT_EQ(found.codes, expected.codes) << round;
  }
}

TEST_P(QuantiseWeights, ARowDoesNotDependOnTheOthers) {
  Random random(82);
  SCOPED_TRACE(random.seed_text());
  for (int round = 0; round < 20; ++round) {
    const WeightQuant rule = random_rule(random);
    const int64_t rows = random.integer(2, 9), cols = random.integer(1, 300), groups = rule.groups(cols);
    const std::vector<float> w = random.normal(rows * cols);
    const ConstF32View view(w.data(), rows, cols);
    const Quantised all = quantised(kernels, rule, view);
    for (int64_t r = 0; r < rows; ++r) {
      const Quantised one = quantised(kernels, rule, view.slice(r, 1));
      ASSERT_TRUE(std::equal(one.codes.begin(), one.codes.end(), all.codes.begin() + r * cols));
      ASSERT_TRUE(std::equal(one.scales.begin(), one.scales.end(), all.scales.begin() + r * groups));
    }
  }
}

TEST_P(QuantiseWeights, EightBitCodesAreTheNearestOfTheLargestOverTheRange) {
  Random random(83);
  SCOPED_TRACE(random.seed_text());
  const std::vector<float> w = random.normal(500);
  float largest = 0.0F;
  for (const float x : w) largest = std::max(largest, std::fabs(x));
  for (const Code code : {Code::kInt8, Code::kFp8E4m3}) {
    const Quantised out = quantised(kernels, {.code = code}, one_row(w));
    ASSERT_EQ(out.scales[0], largest / (code == Code::kInt8 ? 127.0F : 448.0F));
    for (size_t i = 0; i < w.size(); ++i) {
      const float quotient = w[i] / out.scales[0];
      ASSERT_EQ(decode(code, out.codes[i]), code == Code::kInt8 ? std::nearbyint(quotient) : e4m3_to_f32(f32_to_e4m3(quotient)));
    }
  }
}

TEST_P(QuantiseWeights, Int4IsNeverFartherThanRoundingTheLargestToSevenAndOftenCloser) {
  Random random(84);
  SCOPED_TRACE(random.seed_text());
  double plain_total = 0.0, total = 0.0;
  for (const int64_t group : {32, 128}) {
    const WeightQuant rule{.code = Code::kInt4, .group = group, .scale_dtype = DType::kBF16};
    const std::vector<float> w = random.normal(200 * group, 0.02F);
    const Quantised out = quantised(kernels, rule, one_row(w));
    for (size_t g = 0; g < out.scales.size(); ++g) {
      const float* const from = w.data() + static_cast<int64_t>(g) * group;
      float largest = 0.0F;
      for (int64_t i = 0; i < group; ++i) largest = std::max(largest, std::fabs(from[i]));
      const float plain = bf16_to_f32(f32_to_bf16(largest / 7.0F));
      double plain_error = 0.0, error = 0.0;
      for (int64_t i = 0; i < group; ++i) {
        const float rounded = std::clamp(std::nearbyint(from[i] / plain), -7.0F, 7.0F) * plain;
        const float found = value(rule, out.codes[static_cast<size_t>(static_cast<int64_t>(g) * group + i)], out.scales[g]);
        plain_error += std::pow(static_cast<double>(from[i]) - static_cast<double>(rounded), 2.0);
        error += std::pow(static_cast<double>(from[i]) - static_cast<double>(found), 2.0);
      }
      ASSERT_LE(error, plain_error * (1.0 + 1e-5)) << g;
      plain_total += plain_error;
      total += error;
    }
  }
  EXPECT_LT(total, 0.75 * plain_total);
}

TEST_P(QuantiseWeights, AShortLastGroupHasAScaleOfItsOwn) {
  std::vector<float> w(36, 1.0F);
  for (size_t i = 32; i < 36; ++i) w[i] = 1e-3F;
  const Quantised out = quantised(kernels, {.code = Code::kInt4, .group = 32}, one_row(w));
  ASSERT_EQ(out.scales.size(), 2U);
  EXPECT_NEAR(value({.code = Code::kInt4}, out.codes[0], out.scales[0]), 1.0F, 1e-6F);
  EXPECT_NEAR(value({.code = Code::kInt4}, out.codes[35], out.scales[1]), 1e-3F, 1e-9F);
}

TEST_P(QuantiseWeights, ZerosHaveScaleOneAndCodesOfZero) {
  std::vector<float> w(64, 0.0F);
  for (size_t i = 32; i < 64; ++i) w[i] = -1e-35F;  // below kLeastWeight
  for (const Code code : {Code::kInt8, Code::kInt4, Code::kFp8E4m3}) {
    const WeightQuant rule{.code = code, .group = 32};
    const Quantised out = quantised(kernels, rule, one_row(w));
    EXPECT_EQ(out.scales, (std::vector<float>{1.0F, 1.0F}));
    for (const uint8_t byte : out.codes) EXPECT_EQ(value(rule, byte, 1.0F), 0.0F);
  }
}

TEST_P(QuantiseWeights, WhatIsNotFiniteShowsInTheScaleOfItsGroupAlone) {
  Random random(85);
  for (const Code code : {Code::kInt8, Code::kInt4, Code::kFp8E4m3}) {
    for (const float broken : {kNan, -kNan, kInfinity, -kInfinity, __builtin_bit_cast(float, 0x7FFFFFFFU)}) {
      for (const DType scale_dtype : {DType::kF32, DType::kBF16}) {
        std::vector<float> w = random.normal(100);
        w[50] = broken;
        const Quantised out = quantised(kernels, {.code = code, .group = 32, .scale_dtype = scale_dtype}, one_row(w));
        for (size_t g = 0; g < out.scales.size(); ++g) EXPECT_EQ(std::isfinite(out.scales[g]), g != 1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, QuantiseWeights, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
