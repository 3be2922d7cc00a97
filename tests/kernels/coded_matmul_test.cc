#include <cmath>

#include "tests/kernels/coded_support.h"

namespace lamina::kernels::testing {
namespace {

constexpr DType kInputs[] = {DType::kF32, DType::kBF16, DType::kU8};

bool multiplies(Code code, DType x) { return x != DType::kU8 || code == Code::kInt8 || code == Code::kInt4; }

struct Problem {
  CodedWeights w;
  CodedInput x;
  DType x_dtype;
  int64_t m, n, k;
  std::vector<float> bias;

  Problem(Random& random, const CodedShape& shape, DType input, int64_t rows)
      : w(random, shape),
        x(random, input, rows, shape.k, scale_runs(random, shape, input)),
        x_dtype(input),
        m(rows),
        n(shape.n),
        k(shape.k),
        bias(random.normal(n)) {}

  static int64_t scale_runs(Random& random, const CodedShape& shape, DType input) {
    const int64_t choices[] = {input == DType::kU8 ? 1 : 0, 1, static_cast<int64_t>(shape.run_end.size())};
    return choices[random.integer(0, 2)];
  }
  std::string text() const {
    return cat("m ", m, " n ", n, " k ", k, " code ", code_name(w.shape.code), " x ", dtype_name(x_dtype), " runs ", w.shape.run_end.size(),
               " scales ", dtype_name(w.shape.scale_dtype), w.shape.zeros ? " zeros" : "", w.shape.row_scales ? " row scales" : "");
  }
};

std::vector<float> run(const Kernels& kernels, const Problem& p, int64_t rows, const float* bias) {
  std::vector<float> out(static_cast<size_t>(rows * p.n));
  kernels.quantised->matmul_panels(p.x.rows(0, rows), p.w.matrix(), bias, F32View(out.data(), rows, p.n), 0, p.w.matrix().panels());
  return out;
}

/// A run of length l rounds at most l + 1 times (never when it is of integers), its scale twice, then once a run and for each factor.
void expect_close(const Problem& p, const std::vector<float>& out, const float* bias) {
  for (int64_t r = 0; r < p.m; ++r)
    for (int64_t c = 0; c < p.n; ++c) {
      double exact = bias == nullptr ? 0.0 : static_cast<double>(bias[c]);
      double error = std::fabs(exact);
      for (int64_t run = 0, i = 0; run < p.w.matrix().runs; ++run) {
        const int64_t length = p.w.shape.run_end[static_cast<size_t>(run)] - i;
        double sum = 0.0, size = 0.0;
        for (; i < p.w.shape.run_end[static_cast<size_t>(run)]; ++i) {
          const double product = p.x.value(r, i) * p.w.level(c, i, run);
          sum += product;
          size += std::fabs(product);
        }
        const double scale = p.w.scale(c, run) * p.x.scale(r, run);
        exact += sum * scale;
        error += static_cast<double>(p.w.matrix().runs + 6) * std::fabs(sum * scale);
        if (p.x_dtype != DType::kU8) error += static_cast<double>(length + 1) * size * std::fabs(scale);
      }
      ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>(r * p.n + c)]), exact, error * 0x1p-24 * 1.01)
          << "row " << r << " column " << c;
    }
}

/// Calls body(code, x) for each pair that can be multiplied.
template <class Body>
void each_pair(Body&& body) {
  for (const Code code : kCodes)
    for (const DType x : kInputs)
      if (multiplies(code, x)) body(code, x);
}

class CodedMatmul : public KernelTest {};

TEST_P(CodedMatmul, AgreesWithAFloat64ProductForEveryCodeInputAndShape) {
  Random random(51);
  SCOPED_TRACE(random.seed_text());
  each_pair([&](Code code, DType x) {
    for (int round = 0; round < 16; ++round) {
      const CodedShape shape = random_shape(random, code, x, random.integer(1, 100), random.integer(1, 400));
      const Problem p(random, shape, x, random.integer(1, 30));
      SCOPED_TRACE(p.text());
      const float* bias = round % 2 == 0 ? nullptr : p.bias.data();
      expect_close(p, run(kernels, p, p.m, bias), bias);
    }
  });
}

TEST_P(CodedMatmul, LongDepthsAgreeWithFloat64) {
  Random random(52);
  SCOPED_TRACE(random.seed_text());
  each_pair([&](Code code, DType x) {
    for (const int64_t rows : {1, 13}) {
      const Problem p(random, random_shape(random, code, x, 33, 9001), x, rows);
      SCOPED_TRACE(p.text());
      expect_close(p, run(kernels, p, p.m, p.bias.data()), p.bias.data());
    }
  });
}

TEST_P(CodedMatmul, ARowHasTheSameBitsAloneAndAmongAnyNumberOfRows) {
  Random random(53);
  SCOPED_TRACE(random.seed_text());
  each_pair([&](Code code, DType x) {
    for (const int64_t k : {37, 640, 2611}) {
      const int64_t most = GetParam() == Isa::kRef ? 4 : 300;
      const Problem p(random, random_shape(random, code, x, 65, k), x, most);
      SCOPED_TRACE(p.text());
      std::vector<float> alone(static_cast<size_t>(p.m * p.n));
      for (int64_t r = 0; r < p.m; ++r)
        kernels.quantised->matmul_panels(p.x.rows(r, 1), p.w.matrix(), p.bias.data(), F32View(alone.data() + r * p.n, 1, p.n), 0,
                                         p.w.matrix().panels());
      for (int64_t m = 1; m <= most; m = m < 30 ? m + 1 : m + 90) {
        const std::vector<float> expected(alone.begin(), alone.begin() + m * p.n);
        ASSERT_TRUE(same_bits(run(kernels, p, m, p.bias.data()), expected)) << "m " << m;
      }
    }
  });
}

TEST_P(CodedMatmul, SplitsOfPanelsAndThreadsChangeNoBit) {
  Random random(54);
  SCOPED_TRACE(random.seed_text());
  each_pair([&](Code code, DType x) {
    for (const int64_t rows : {1, 2, 19}) {
      const Problem p(random, random_shape(random, code, x, 32 * 11 + 5, 130), x, rows);
      SCOPED_TRACE(p.text());
      const std::vector<float> whole = run(kernels, p, p.m, p.bias.data());
      std::vector<float> parts(whole.size());
      for (int64_t begin = 0; begin < p.w.matrix().panels();) {
        const int64_t end = std::min(p.w.matrix().panels(), begin + random.integer(1, 5));
        kernels.quantised->matmul_panels(p.x.rows(0, p.m), p.w.matrix(), p.bias.data(), F32View(parts.data(), p.m, p.n), begin, end);
        begin = end;
      }
      EXPECT_TRUE(same_bits(parts, whole));
      for (const int threads : {1, 3}) {
        ThreadTeam team(threads, 2);
        std::vector<float> out(whole.size());
        matmul_coded(kernels, team, p.x.rows(0, p.m), p.w.matrix(), p.bias.data(), F32View(out.data(), p.m, p.n));
        EXPECT_TRUE(same_bits(out, whole)) << threads << " threads";
      }
    }
  });
}

TEST_P(CodedMatmul, SumsOfInt8AreExactAtTheirLargest) {
  Random random(55);
  for (const Code code : {Code::kInt8, Code::kInt4})
    for (const int64_t rows : {1, 20}) {
      const int64_t k = 131072;  // 2^17 products of -128 * -128 are beyond 2^31 - 1, those of 127 and -127 are not
      CodedWeights w(random, {.code = code, .n = 2, .k = k, .run_end = {static_cast<int32_t>(k)}});
      std::vector<uint8_t> codes(static_cast<size_t>(2 * k), code == Code::kInt8 ? uint8_t{127} : uint8_t{15});
      pack_codes(w.matrix(), 0, 2, codes.data(), k);
      const std::vector<float> one{1.0F, 1.0F};
      pack_scales(w.matrix(), 0, 2, one.data(), 1);
      const std::vector<uint8_t> lowest(static_cast<size_t>(rows * k), 1);  // -127
      Activation x;
      x.dtype = DType::kU8, x.data = lowest.data(), x.rows = rows, x.cols = k, x.stride = k;
      std::vector<float> out(static_cast<size_t>(rows * 2));
      kernels.quantised->matmul_panels(x, w.matrix(), nullptr, F32View(out.data(), rows, 2), 0, 1);
      const int64_t level = code == Code::kInt8 ? 127 : 15 - w.matrix().zero;
      for (const float value : out) EXPECT_EQ(value, static_cast<float>(-127 * level * k));
    }
}

TEST_P(CodedMatmul, LeavesColumnsBeyondTheMatrixAlone) {
  Random random(56);
  each_pair([&](Code code, DType x) {
    for (const int64_t rows : {1, 3, 20}) {
      const Problem p(random, random_shape(random, code, x, 41, 20), x, rows);
      std::vector<float> out(static_cast<size_t>(rows * 64), -7.0F);
      kernels.quantised->matmul_panels(p.x.rows(0, rows), p.w.matrix(), nullptr, F32View(out.data(), rows, 64), 0, 2);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 41; c < 64; ++c) EXPECT_EQ(out[static_cast<size_t>(r * 64 + c)], -7.0F);
    }
  });
}

TEST_P(CodedMatmul, NeverMultipliesWhatFollowsARow) {
  Random random(57);
  for (const Code code : kCodes)
    for (const int64_t rows : {1, 2, 9}) {
      const int64_t k = 37, stride = 48;
      const CodedWeights w(random, {.code = code, .n = 32, .k = k, .run_end = {11, 37}});
      std::vector<uint16_t> x(static_cast<size_t>(rows * stride), 0x7FC0);  // NaN between the rows
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(r * stride + i)] = f32_to_bf16(static_cast<float>(r + i));
      std::vector<float> out(static_cast<size_t>(rows * 32));
      Activation rounded;
      rounded.dtype = DType::kBF16, rounded.data = x.data(), rounded.rows = rows, rounded.cols = k, rounded.stride = stride;
      kernels.quantised->matmul_panels(rounded, w.matrix(), nullptr, F32View(out.data(), rows, 32), 0, 1);
      for (const float value : out) EXPECT_FALSE(std::isnan(value)) << code_name(code);
    }
}

TEST_P(CodedMatmul, ANanCodeOrScaleReachesTheOutput) {
  Random random(58);
  for (const DType x : {DType::kF32, DType::kBF16})
    for (const int64_t rows : {1, 20})
      for (const uint8_t nan : {0x7F, 0xFF}) {
        CodedWeights w(random, {.code = Code::kFp8E4m3, .n = 3, .k = 50, .run_end = {50}});
        w.codes[50 + 17] = nan;
        pack_codes(w.matrix(), 0, 3, w.codes.data(), 50);
        const CodedInput input(random, x, rows, 50, 0);
        std::vector<float> out(static_cast<size_t>(rows * 3));
        kernels.quantised->matmul_panels(input.rows(0, rows), w.matrix(), nullptr, F32View(out.data(), rows, 3), 0, 1);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(std::isnan(out[static_cast<size_t>(r * 3 + c)]), c == 1);
      }
}

INSTANTIATE_TEST_SUITE_P(Isa, CodedMatmul, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
