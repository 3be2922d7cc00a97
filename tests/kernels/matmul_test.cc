#include <cmath>

#include "tests/kernels/support.h"

namespace lamina::kernels::testing {
namespace {

struct Formats {
  DType storage;
  DType compute;
};
constexpr Formats kFormats[] = {
    {DType::kBF16, DType::kBF16}, {DType::kBF16, DType::kF32}, {DType::kF16, DType::kF32}, {DType::kF32, DType::kF32}};

/// x, w and bias in the numbers the kernel sees, and their packed and rounded copies.
struct Problem {
  Formats formats;
  int64_t m, n, k;
  std::vector<float> x, w, bias;
  std::vector<uint16_t> x_bf16;
  Packed packed;

  Problem(const Kernels& kernels, Random& random, Formats f, int64_t rows, int64_t columns, int64_t depth)
      : formats(f), m(rows), n(columns), k(depth), x(random.normal(m * k)), w(random.normal(n * k)), bias(random.normal(n)) {
    if (f.storage == DType::kBF16) w = from_bf16(to_bf16(w));
    if (f.storage == DType::kF16)
      for (float& value : w) value = f16_to_f32(f32_to_f16(value));
    if (f.compute == DType::kBF16) x_bf16 = to_bf16(x), x = from_bf16(x_bf16);
    packed = pack(kernels, {.storage = f.storage, .compute = f.compute, .n = n, .k = k}, w.data(), DType::kF32);
  }

  Activation activation(int64_t row, int64_t rows) const {
    if (formats.compute == DType::kBF16) return MatrixView<const uint16_t>(x_bf16.data() + row * k, rows, k);
    return ConstF32View(x.data() + row * k, rows, k);
  }
};

std::vector<float> run(const Kernels& kernels, const Problem& p, const float* bias) {
  std::vector<float> out(static_cast<size_t>(p.m * p.n));
  kernels.matmul_panels(p.activation(0, p.m), p.packed.matrix, bias, F32View(out.data(), p.m, p.n), 0, p.packed.matrix.panels());
  return out;
}

/// |computed - exact| <= (k + 2) eps sum |x w|: each of k additions and the products round once (Higham, Accuracy and Stability, 3.1).
void expect_close(const Problem& p, const std::vector<float>& out, const float* bias) {
  for (int64_t r = 0; r < p.m; ++r)
    for (int64_t c = 0; c < p.n; ++c) {
      double exact = bias == nullptr ? 0.0 : static_cast<double>(bias[c]);
      double magnitude = std::fabs(exact);
      for (int64_t i = 0; i < p.k; ++i) {
        const double product =
            static_cast<double>(p.x[static_cast<size_t>(r * p.k + i)]) * static_cast<double>(p.w[static_cast<size_t>(c * p.k + i)]);
        exact += product;
        magnitude += std::fabs(product);
      }
      const double bound = static_cast<double>(p.k + 2) * 0x1p-24 * magnitude;
      ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>(r * p.n + c)]), exact, bound) << "row " << r << " column " << c;
    }
}

class Matmul : public KernelTest {};

TEST_P(Matmul, AgreesWithAFloat64ProductForEveryFormatAndShape) {
  Random random(11);
  SCOPED_TRACE(random.seed_text());
  for (const Formats formats : kFormats)
    for (int round = 0; round < 12; ++round) {
      const Problem p(kernels, random, formats, random.integer(1, 30), random.integer(1, 100), random.integer(1, 300));
      SCOPED_TRACE(::testing::Message() << "m " << p.m << " n " << p.n << " k " << p.k << " storage " << dtype_name(formats.storage)
                                        << " compute " << dtype_name(formats.compute));
      const float* bias = round % 2 == 0 ? nullptr : p.bias.data();
      expect_close(p, run(kernels, p, bias), bias);
    }
}

TEST_P(Matmul, LongDepthsAgreeWithFloat64) {
  Random random(12);
  SCOPED_TRACE(random.seed_text());
  for (const Formats formats : kFormats) {
    const Problem p(kernels, random, formats, 25, 33, 9001);
    expect_close(p, run(kernels, p, p.bias.data()), p.bias.data());
  }
}

TEST_P(Matmul, ARowHasTheSameBitsAloneAndAmongAnyNumberOfRows) {
  Random random(13);
  SCOPED_TRACE(random.seed_text());
  for (const Formats formats : kFormats)
    for (const int64_t k : {37, 640, 8230}) {  // the last is done in two passes when there are many rows
      const int64_t most = GetParam() == Isa::kRef || k > 1000 ? 40 : 512;
      Problem p(kernels, random, formats, most, 65, k);
      std::vector<float> alone(static_cast<size_t>(p.m * p.n));
      for (int64_t r = 0; r < p.m; ++r)
        kernels.matmul_panels(p.activation(r, 1), p.packed.matrix, p.bias.data(), F32View(alone.data() + r * p.n, 1, p.n), 0,
                              p.packed.matrix.panels());
      for (int64_t m = 1; m <= most; m = m < 40 ? m + 1 : m + 472) {
        p.m = m;
        const std::vector<float> expected(alone.begin(), alone.begin() + m * p.n);
        ASSERT_TRUE(same_bits(run(kernels, p, p.bias.data()), expected)) << "m " << m << " k " << k;
      }
    }
}

TEST_P(Matmul, SplitsOfPanelsAndThreadsChangeNoBit) {
  Random random(14);
  SCOPED_TRACE(random.seed_text());
  for (const Formats formats : kFormats) {
    const Problem p(kernels, random, formats, 19, 32 * 21 + 5, 130);
    const std::vector<float> whole = run(kernels, p, p.bias.data());
    std::vector<float> parts(whole.size());
    for (int64_t begin = 0; begin < p.packed.matrix.panels();) {
      const int64_t end = std::min(p.packed.matrix.panels(), begin + random.integer(1, 5));
      kernels.matmul_panels(p.activation(0, p.m), p.packed.matrix, p.bias.data(), F32View(parts.data(), p.m, p.n), begin, end);
      begin = end;
    }
    EXPECT_TRUE(same_bits(parts, whole));
    for (const int threads : {1, 2, 5}) {
      ThreadTeam team(threads, 2);
      std::vector<float> out(whole.size());
      matmul(kernels, team, p.activation(0, p.m), p.packed.matrix, p.bias.data(), F32View(out.data(), p.m, p.n));
      EXPECT_TRUE(same_bits(out, whole)) << threads << " threads";
    }
  }
}

TEST_P(Matmul, LeavesColumnsBeyondTheMatrixAlone) {
  Random random(15);
  const Problem p(kernels, random, kFormats[0], 3, 41, 20);
  std::vector<float> out(3 * 64, -7.0F);
  kernels.matmul_panels(p.activation(0, 3), p.packed.matrix, nullptr, F32View(out.data(), 3, 64), 0, 2);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 41; c < 64; ++c) EXPECT_EQ(out[static_cast<size_t>(r * 64 + c)], -7.0F);
}

TEST_P(Matmul, NeverMultipliesWhatFollowsAnOddRow) {
  Random random(16);
  const Problem p(kernels, random, kFormats[0], 2, 32, 7);
  std::vector<uint16_t> x(16, 0x7FC0);  // NaN between the rows
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t i = 0; i < 7; ++i) x[static_cast<size_t>(r * 8 + i)] = p.x_bf16[static_cast<size_t>(r * 7 + i)];
  std::vector<float> out(64);
  kernels.matmul_panels(MatrixView<const uint16_t>(x.data(), 2, 7, 8), p.packed.matrix, nullptr, F32View(out.data(), 2, 32), 0, 1);
  EXPECT_TRUE(same_bits(out, run(kernels, p, nullptr)));
}

INSTANTIATE_TEST_SUITE_P(Isa, Matmul, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
