#include <cmath>
#include <limits>

#include "kernels/float8.h"
#include "tests/kernels/coded_support.h"

namespace lamina::kernels::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Quantise : public KernelTest {
 protected:
  std::vector<uint8_t> int8_codes(const std::vector<float>& x, int64_t cols, const std::vector<int32_t>& ends, ConstF32View scales) {
    const int64_t rows = static_cast<int64_t>(x.size()) / cols;
    std::vector<uint8_t> out(x.size(), 0xEE);
    kernels.quantised->quantise(ConstF32View(x.data(), rows, cols), ends, scales,
                                {.dtype = DType::kU8, .data = out.data(), .rows = rows, .cols = cols, .stride = cols});
    return out;
  }
  std::vector<uint16_t> e4m3_values(const std::vector<float>& x, int64_t cols, const std::vector<int32_t>& ends, ConstF32View scales) {
    const int64_t rows = static_cast<int64_t>(x.size()) / cols;
    std::vector<uint16_t> out(x.size(), 0xEEEE);
    kernels.quantised->quantise(ConstF32View(x.data(), rows, cols), ends, scales,
                                {.dtype = DType::kBF16, .data = out.data(), .rows = rows, .cols = cols, .stride = cols});
    return out;
  }
};

TEST_P(Quantise, MaximaCoverEachRunAndNaNWins) {
  Random random(71);
  SCOPED_TRACE(random.seed_text());
  for (int round = 0; round < 20; ++round) {
    const int64_t rows = random.integer(1, 5), cols = random.integer(1, 400);
    const std::vector<int32_t> ends = random_runs(random, cols);
    const auto runs = static_cast<int64_t>(ends.size());
    std::vector<float> x = random.normal(rows * cols);
    const int64_t broken = round % 4 == 0 ? random.integer(0, rows * cols - 1) : -1;
    if (broken >= 0) x[static_cast<size_t>(broken)] = kNan;
    std::vector<float> maxima(static_cast<size_t>(rows * runs), -1.0F);
    kernels.quantised->run_maxima(ConstF32View(x.data(), rows, cols), ends, F32View(maxima.data(), rows, runs));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t run = 0, c = 0; run < runs; ++run) {
        float expected = 0.0F;
        bool nan = false;
        for (; c < ends[static_cast<size_t>(run)]; ++c) {
          nan = nan || r * cols + c == broken;
          expected = std::fmax(expected, std::fabs(x[static_cast<size_t>(r * cols + c)]));
        }
        const float found = maxima[static_cast<size_t>(r * runs + run)];
        if (nan)
          EXPECT_TRUE(std::isnan(found));
        else
          EXPECT_EQ(found, expected);
      }
  }
}

TEST_P(Quantise, Int8IsTheNearestIntegerOfTheQuotientTiesToEven) {
  const std::vector<float> x{0.0F,    -0.0F,   0.5F, 1.5F,  -0.5F, -1.5F, 2.5F,  126.5F, 127.5F,
                             -127.5F, -128.5F, 1e9F, -1e9F, 0.3F,  -3.7F, 99.0F, 5.0F};
  const std::vector<int> expected{0, 0, 0, 2, 0, -2, 2, 126, 127, -128, -128, 127, -128, 0, -4, 99, 5};
  const float one = 1.0F;
  const auto codes = int8_codes(x, 17, {17}, ConstF32View(&one, 1, 1));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(codes[i] - 128, expected[i]) << x[i];
}

TEST_P(Quantise, DynamicScalesPutTheLargestAtTheEndOfTheRange) {
  Random random(72);
  SCOPED_TRACE(random.seed_text());
  for (int round = 0; round < 20; ++round) {
    const int64_t rows = random.integer(1, 4), cols = random.integer(1, 300);
    const std::vector<int32_t> ends = round % 2 == 0 ? std::vector<int32_t>{static_cast<int32_t>(cols)} : random_runs(random, cols);
    const auto runs = static_cast<int64_t>(ends.size());
    std::vector<float> x = random.normal(rows * cols);
    for (int64_t c = 0; c < ends[0]; ++c) x[static_cast<size_t>(c)] = 0.0F;  // a run of zeros
    for (const DType dtype : {DType::kU8, DType::kBF16}) {
      std::vector<float> scales(static_cast<size_t>(rows * runs));
      const F32View view(scales.data(), rows, runs);
      kernels.quantised->run_maxima(ConstF32View(x.data(), rows, cols), ends, view);
      const std::vector<float> maxima = scales;
      scales_of_maxima(dtype, view);
      const auto bytes = dtype == DType::kU8 ? int8_codes(x, cols, ends, view) : std::vector<uint8_t>();
      const auto halves = dtype == DType::kBF16 ? e4m3_values(x, cols, ends, view) : std::vector<uint16_t>();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t run = 0, c = 0; run < runs; ++run) {
          const float maximum = maxima[static_cast<size_t>(r * runs + run)];
          const float scale = maximum == 0.0F ? 1.0F : maximum / (dtype == DType::kU8 ? 127.0F : 448.0F);
          EXPECT_EQ(view.at(r, run), scale);
          for (; c < ends[static_cast<size_t>(run)]; ++c) {
            const auto i = static_cast<size_t>(r * cols + c);
            if (dtype == DType::kU8)
              ASSERT_EQ(static_cast<float>(bytes[i]) - 128.0F, std::nearbyint(x[i] / scale));
            else
              ASSERT_EQ(bf16_to_f32(halves[i]), e4m3_to_f32(f32_to_e4m3(x[i] / scale)));
          }
        }
    }
  }
}

TEST_P(Quantise, E4m3EqualsTheEncoderOnEveryTieAndItsNeighbours) {
  std::vector<float> x;
  for (int bits = 0; bits < 0x7E; ++bits) {
    const float low = e4m3_to_f32(static_cast<uint8_t>(bits)), high = e4m3_to_f32(static_cast<uint8_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    for (const float value : {low, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e9F), -middle}) x.push_back(value);
  }
  for (const float value : {448.0F, 463.0F, 464.0F, 465.0F, 1e30F, -1e30F, std::numeric_limits<float>::infinity(), 1e-40F, -1e-40F, kNan})
    x.push_back(value);
  const float one = 1.0F;
  const auto cols = static_cast<int64_t>(x.size());
  const auto values = e4m3_values(x, cols, {static_cast<int32_t>(cols)}, ConstF32View(&one, 1, 1));
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]))
      EXPECT_TRUE(std::isnan(bf16_to_f32(values[i])));
    else
      EXPECT_EQ(values[i], f32_to_bf16(e4m3_to_f32(f32_to_e4m3(x[i])))) << x[i];
  }
}

TEST_P(Quantise, AScaleOfStrideZeroServesAllRows) {
  Random random(73);
  const std::vector<float> x = random.normal(3 * 40);
  const float scale = 0.37F;
  const std::vector<float> copies{scale, scale, scale};
  EXPECT_EQ(int8_codes(x, 40, {40}, ConstF32View(&scale, 3, 1, 0)), int8_codes(x, 40, {40}, ConstF32View(copies.data(), 3, 1)));
  EXPECT_EQ(e4m3_values(x, 40, {40}, ConstF32View(&scale, 3, 1, 0)), e4m3_values(x, 40, {40}, ConstF32View(copies.data(), 3, 1)));
}

INSTANTIATE_TEST_SUITE_P(Isa, Quantise, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
