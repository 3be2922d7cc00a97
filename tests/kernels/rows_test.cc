#include <cmath>
#include <limits>

#include "tests/kernels/support.h"

namespace lamina::kernels::testing {
namespace {

constexpr double kEpsilon = 0x1p-24;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Output rows in f32 or bf16, read back as f32.
struct Output {
  Output(DType dtype, int64_t rows, int64_t cols) : floats(static_cast<size_t>(rows * cols)), halves(floats.size()) {
    activation = {.dtype = dtype,
                  .data = dtype == DType::kF32 ? static_cast<void*>(floats.data()) : halves.data(),
                  .rows = rows,
                  .cols = cols,
                  .stride = cols};
  }
  std::vector<float> values() const { return activation.dtype == DType::kF32 ? floats : from_bf16(halves); }
  std::vector<float> floats;
  std::vector<uint16_t> halves;
  MutableActivation activation;
};

double rounding(DType dtype) { return dtype == DType::kF32 ? kEpsilon : 0x1p-8; }

class Rows : public KernelTest {};

TEST_P(Rows, RmsNormAgreesWithFloat64) {
  Random random(41);
  SCOPED_TRACE(random.seed_text());
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (int round = 0; round < 30; ++round) {
      const int64_t rows = random.integer(1, 5), cols = random.integer(1, 700);
      const std::vector<float> x = random.normal(rows * cols, 3.0F), weight = random.normal(cols);
      Output out(dtype, rows, cols);
      kernels.rms_norm(ConstF32View(x.data(), rows, cols), {.weight = weight.data(), .eps = 1e-5F}, out.activation);
      const std::vector<float> got = out.values();
      for (int64_t r = 0; r < rows; ++r) {
        double squares = 0.0;
        for (int64_t c = 0; c < cols; ++c) squares += std::pow(static_cast<double>(x[static_cast<size_t>(r * cols + c)]), 2);
        const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(1e-5F));
        for (int64_t c = 0; c < cols; ++c) {
          const auto i = static_cast<size_t>(r * cols + c);
          const double exact = static_cast<double>(x[i]) * inverse * static_cast<double>(weight[static_cast<size_t>(c)]);
          // the sum of squares errs by cols eps at most, its root by half of that; five more roundings
          const double bound = (static_cast<double>(cols) / 2 + 6) * kEpsilon + rounding(dtype);
          ASSERT_NEAR(static_cast<double>(got[i]), exact, bound * std::fabs(exact)) << rows << " x " << cols;
        }
      }
    }
}

TEST_P(Rows, AddRmsNormIsAddThenRmsNormToTheBit) {
  Random random(42);
  SCOPED_TRACE(random.seed_text());
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (int round = 0; round < 20; ++round) {
      const int64_t rows = random.integer(1, 4), cols = random.integer(1, 300), count = random.integer(1, 5), first = random.integer(0, 2);
      const std::vector<float> weight = random.normal(cols);
      std::vector<float> fused = random.normal(rows * cols), apart = fused;
      Output fused_out(dtype, rows, cols), apart_out(dtype, rows, cols);
      const RmsNormArgs args{.weight = weight.data()};
      std::vector<std::vector<float>> values;
      std::vector<ConstF32View> parts;
      for (int64_t p = 0; p < count; ++p) values.push_back(random.normal((first + rows) * cols));
      for (const std::vector<float>& part : values) parts.emplace_back(part.data(), first + rows, cols);
      const Addends addends{.parts = parts.data(), .count = count, .first_row = first};
      kernels.add_rms_norm(F32View(fused.data(), rows, cols), addends, args, fused_out.activation);
      std::vector<float> total = values[0];
      for (size_t p = 1; p < values.size(); ++p) kernels.add_rows(F32View(total.data(), first + rows, cols), parts[p]);
      kernels.add_rows(F32View(apart.data(), rows, cols), ConstF32View(total.data(), first + rows, cols).slice(first, rows));
      kernels.rms_norm(ConstF32View(apart.data(), rows, cols), args, apart_out.activation);
      ASSERT_TRUE(same_bits(fused, apart));
      ASSERT_TRUE(same_bits(fused_out.values(), apart_out.values()));
    }
}

TEST_P(Rows, ARowHasTheSameBitsAloneAndAmongOthers) {
  Random random(43);
  SCOPED_TRACE(random.seed_text());
  const int64_t rows = 9, cols = 118;
  const std::vector<float> x = random.normal(rows * cols), weight = random.normal(cols);
  Output all(DType::kF32, rows, cols), silu_all(DType::kBF16, rows, cols / 2);
  kernels.rms_norm(ConstF32View(x.data(), rows, cols), {.weight = weight.data()}, all.activation);
  kernels.silu_and_mul(ConstF32View(x.data(), rows, cols), silu_all.activation);
  for (int64_t r = 0; r < rows; ++r) {
    Output one(DType::kF32, 1, cols), silu_one(DType::kBF16, 1, cols / 2);
    kernels.rms_norm(ConstF32View(x.data() + r * cols, 1, cols), {.weight = weight.data()}, one.activation);
    kernels.silu_and_mul(ConstF32View(x.data() + r * cols, 1, cols), silu_one.activation);
    const std::vector<float> values = all.values(), silu = silu_all.values();
    EXPECT_TRUE(same_bits(one.values(), {values.begin() + r * cols, values.begin() + (r + 1) * cols}));
    EXPECT_TRUE(same_bits(silu_one.values(), {silu.begin() + r * cols / 2, silu.begin() + (r + 1) * cols / 2}));
  }
}

TEST_P(Rows, HeadRmsNormIsRmsNormOfEachHead) {
  Random random(44);
  SCOPED_TRACE(random.seed_text());
  for (const int dim : {5, 64, 80, 128}) {
    const int64_t heads = 3, rows = 2;
    const std::vector<float> weight = random.normal(dim);
    std::vector<float> x = random.normal(rows * heads * dim);
    Output expected(DType::kF32, rows * heads, dim);
    kernels.rms_norm(ConstF32View(x.data(), rows * heads, dim), {.weight = weight.data()}, expected.activation);
    kernels.head_rms_norm(F32View(x.data(), rows, heads * dim), heads, dim, {.weight = weight.data()});
    EXPECT_TRUE(same_bits(x, expected.values())) << "head dim " << dim;
  }
}

TEST_P(Rows, RopeTurnsPairsAndPassesTheRestThrough) {
  Random random(45);
  SCOPED_TRACE(random.seed_text());
  for (const bool neox : {true, false})
    for (const auto& [head_dim, rotary] : {std::pair{64, 64}, {80, 32}, {20, 14}, {128, 128}, {6, 2}}) {
      const int64_t tokens = 4, heads = 3, half = rotary / 2;
      std::vector<float> table;
      for (int64_t t = 0; t < tokens; ++t) {
        const std::vector<float> angles = random.normal(half + 1, 2.0F);
        for (int64_t i = 0; i < half; ++i) table.push_back(std::cos(angles[static_cast<size_t>(i)]));
        for (int64_t i = 0; i < half; ++i) table.push_back(std::sin(angles[static_cast<size_t>(i)]));
      }
      const std::vector<float> before = random.normal(tokens * heads * head_dim);
      std::vector<float> x = before;
      kernels.rope(F32View(x.data(), tokens, heads * head_dim), static_cast<int>(heads),
                   {.cos_sin = ConstF32View(table.data(), tokens, rotary), .head_dim = head_dim, .rotary_dim = rotary, .neox = neox});
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t head = (t * heads + h) * head_dim;
          for (int64_t i = 0; i < half; ++i) {
            const auto first = static_cast<size_t>(head + (neox ? i : 2 * i));
            const auto second = static_cast<size_t>(head + (neox ? i + half : 2 * i + 1));
            const double a = before[first], b = before[second];
            const double c = table[static_cast<size_t>(t * rotary + i)], s = table[static_cast<size_t>(t * rotary + half + i)];
            const double bound = 3 * kEpsilon * (std::fabs(a) + std::fabs(b));
            ASSERT_NEAR(static_cast<double>(x[first]), a * c - b * s, bound) << "dim " << head_dim << " neox " << neox;
            ASSERT_NEAR(static_cast<double>(x[second]), b * c + a * s, bound) << "dim " << head_dim << " neox " << neox;
          }
          for (int64_t i = rotary; i < head_dim; ++i) ASSERT_EQ(x[static_cast<size_t>(head + i)], before[static_cast<size_t>(head + i)]);
        }
    }
}

TEST_P(Rows, SiluAndMulAgreesWithFloat64OverTheWholeRange) {
  // A sweep over every binade of both signs. Where 1 + exp(-gate) overflows, the result is 0 instead of up to 89 * 2^-128.
  std::vector<float> gates;
  for (uint32_t bits = 0x20000000; bits < 0x42D00000; bits += 0x3457)  // 2^-63 .. 104
    for (const uint32_t sign : {0U, 0x80000000U}) gates.push_back(__builtin_bit_cast(float, bits | sign));
  const auto n = static_cast<int64_t>(gates.size());
  std::vector<float> gate_up = gates;
  for (int64_t i = 0; i < n; ++i) gate_up.push_back(i % 2 == 0 ? 1.0F : -0.75F);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Output out(dtype, 1, n);
    kernels.silu_and_mul(ConstF32View(gate_up.data(), 1, 2 * n), out.activation);
    const std::vector<float> got = out.values();
    for (size_t i = 0; i < gates.size(); ++i) {
      const double gate = static_cast<double>(gates[i]);
      const double exact = gate / (1.0 + std::exp(-gate)) * (i % 2 == 0 ? 1.0 : -0.75);
      ASSERT_NEAR(static_cast<double>(got[i]), exact, (8 * kEpsilon + rounding(dtype)) * std::fabs(exact) + 0x1p-121)
          << "gate " << gates[i];
    }
  }
}

TEST_P(Rows, SiluOfExtremesIsItsLimit) {
  const std::vector<float> gate_up{kInf, -1e30F, 1e30F, kNan, 2.0F, 2.0F, 2.0F, 2.0F};
  Output out(DType::kF32, 1, 4);
  kernels.silu_and_mul(ConstF32View(gate_up.data(), 1, 8), out.activation);
  EXPECT_EQ(out.floats[0], kInf);
  EXPECT_NEAR(out.floats[1], 0.0F, 1e-6F);
  EXPECT_EQ(out.floats[2], 2e30F);
  EXPECT_TRUE(std::isnan(out.floats[3]));
}

TEST_P(Rows, RoundToBf16IsToNearestEven) {
  Random random(46);
  std::vector<float> x = random.normal(1001);
  const std::vector<float> special{0.0F, -0.0F, kInf, -kInf, 1.00390625F, 1.01171875F, -1.00390625F, 3.4e38F, 65280.0F};  // with ties
  x.insert(x.end(), special.begin(), special.end());
  const auto n = static_cast<int64_t>(x.size());
  Output out(DType::kBF16, 1, n);
  kernels.round_to_bf16(ConstF32View(x.data(), 1, n), out.activation);
  EXPECT_EQ(out.halves, to_bf16(x));
  x.assign(20, kNan);
  Output nan(DType::kBF16, 1, 20);
  kernels.round_to_bf16(ConstF32View(x.data(), 1, 20), nan.activation);
  for (const float value : nan.values()) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Rows, StoreKvWritesOnlyItsSlots) {
  Random random(47);
  const std::vector<float> x = random.normal(3 * 21);
  const std::vector<int64_t> slots{5, 0, 3};
  std::vector<uint16_t> halves(6 * 25, 0x4242);
  kernels.store_kv(ConstF32View(x.data(), 3, 21), slots, {.dtype = DType::kBF16, .base = halves.data(), .slot_stride = 25});
  std::vector<float> floats(6 * 25, -7.0F);
  kernels.store_kv(ConstF32View(x.data(), 3, 21), slots, {.dtype = DType::kF32, .base = floats.data(), .slot_stride = 25});
  std::vector<uint16_t> halves_expected(halves.size(), 0x4242);
  std::vector<float> floats_expected(floats.size(), -7.0F);
  for (size_t t = 0; t < 3; ++t)
    for (size_t c = 0; c < 21; ++c) {
      floats_expected[static_cast<size_t>(slots[t]) * 25 + c] = x[t * 21 + c];
      halves_expected[static_cast<size_t>(slots[t]) * 25 + c] = f32_to_bf16(x[t * 21 + c]);
    }
  EXPECT_EQ(halves, halves_expected);
  EXPECT_EQ(floats, floats_expected);
}

TEST_P(Rows, StoreKvIn8BitsGivesTheBytesOfTheReference) {
  Random random(49);
  SCOPED_TRACE(random.seed_text());
  std::vector<float> x = random.normal(3 * 4 * 29);
  x[5] = 1e9F, x[6] = -1e9F, x[7] = 1e-9F, x[8] = -0.0F;
  const std::vector<int64_t> slots{5, 0, 3};
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2, DType::kI8})
    for (const bool own : {false, true}) {
      if (own && dtype != DType::kI8) continue;
      const auto stored = [&](const Kernels& k) {
        std::vector<uint8_t> bytes(6 * 120 + 6 * 5 * 4, 0x42);
        KvTarget target{.dtype = dtype, .base = bytes.data(), .slot_stride = 120, .scale = 0.013F};
        if (own)
          target.scale = 1.0F, target.scales = reinterpret_cast<float*>(bytes.data() + 6 * 120), target.scale_stride = 5,
          target.head_dim = 29;
        k.store_kv(ConstF32View(x.data(), 3, 4 * 29), slots, target);
        return bytes;
      };
      EXPECT_EQ(stored(kernels), stored(table(Isa::kRef))) << dtype_name(dtype) << (own ? " scales of heads" : "");
    }
  std::fill(x.begin(), x.end(), kNan);
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    std::vector<uint8_t> bytes(6 * 120, 0x42);
    kernels.store_kv(ConstF32View(x.data(), 3, 4 * 29), slots, {.dtype = dtype, .base = bytes.data(), .slot_stride = 120});
    EXPECT_EQ(bytes[0] & 0x7F, 0x7F);
  }
}

TEST_P(Rows, ArgmaxTakesTheLowestOfEqualsAndNeverNan) {
  Random random(48);
  SCOPED_TRACE(random.seed_text());
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values = random.normal(random.integer(1, 90));
    for (float& value : values) value = std::round(value);  // many ties
    for (int64_t i = random.integer(0, 5); i > 0; --i)
      values[static_cast<size_t>(random.integer(0, static_cast<int64_t>(values.size()) - 1))] = kNan;
    EXPECT_EQ(kernels.argmax(values), table(Isa::kRef).argmax(values));
  }
  const auto first = [&](std::vector<float> values) { return kernels.argmax(values); };
  EXPECT_EQ(first(std::vector<float>(40, kNan)), -1);
  EXPECT_EQ(first({}), -1);
  EXPECT_EQ(first(std::vector<float>(40, -kInf)), 0);
  EXPECT_EQ(first({kNan, 1.0F, 3.0F, 3.0F, -1.0F}), 2);
  EXPECT_EQ(first({-0.0F, 0.0F}), 0);
}

TEST_P(Rows, LogSumExpAgreesWithFloat64) {
  Random random(49);
  SCOPED_TRACE(random.seed_text());
  for (const int64_t n : {1, 3, 16, 255, 1000, 50000})
    for (const float shift : {0.0F, 1e4F, -300.0F}) {
      std::vector<float> values = random.normal(n, 8.0F);
      for (float& value : values) value += shift;
      double maximum = -INFINITY, sum = 0.0;
      for (const float value : values) maximum = std::max(maximum, static_cast<double>(value));
      for (const float value : values) sum += std::exp(static_cast<double>(value) - maximum);
      const double exact = maximum + std::log(sum);
      EXPECT_NEAR(kernels.log_sum_exp(values), exact, 40 * kEpsilon + std::fabs(exact) * 0x1p-50) << "n " << n;
    }
  EXPECT_EQ(kernels.log_sum_exp(std::vector<float>(20, -kInf)), -INFINITY);
  EXPECT_NEAR(kernels.log_sum_exp(std::vector<float>{-kInf, 2.0F, -kInf}), 2.0, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Isa, Rows, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
