// gate, up and SiLU-and-mul in one loop: the bits of matmul and silu_and_mul one after the other.

#include "kernels/gated.h"

#include "tests/kernels/coded_support.h"

namespace lamina::kernels::testing {
namespace {

/// An activation in memory of its own.
struct Output {
  Output(DType dtype, int64_t rows, int64_t cols)
      : memory(static_cast<size_t>(rows * cols * dtype_bytes(dtype))),
        view{.dtype = dtype, .data = memory.data(), .rows = rows, .cols = cols, .stride = cols} {}
  std::vector<uint8_t> memory;
  MutableActivation view;
};

class Gated : public KernelTest {
 protected:
  /// `multiply(team, out)` is the plain matmul.
  template <class Matrix, class Multiply>
  void compare(const Activation& x, const Matrix& w, const std::vector<float>& bias, Multiply multiply) {
    ThreadTeam one(1, 1);
    std::vector<float> memory(static_cast<size_t>(x.rows * w.n));
    const F32View gate_up(memory.data(), x.rows, w.n);
    multiply(one, gate_up);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Output wanted(dtype, x.rows, w.n / 2);
      kernels.silu_and_mul(gate_up, wanted.view);
      for (const int threads : {1, 3}) {
        ThreadTeam team(threads, threads);
        const Buffer scratch = Buffer::allocate(gated_scratch_bytes(threads)).value();
        Output out(dtype, x.rows, w.n / 2);
        matmul_gated(kernels, team, x, w, bias.empty() ? nullptr : bias.data(), {out.view, scratch.data()});
        EXPECT_EQ(out.memory, wanted.memory) << x.rows << " rows, n " << w.n << ", k " << w.k << ", threads " << threads;
      }
    }
  }

  Random random{11};
};

struct Size {
  int64_t rows, n, k;
};
constexpr Size kSizes[] = {{1, 64, 8}, {1, 5 * 64, 31}, {17, 7 * 64, 40}, {512, 3 * 64, 10}, {513, 2 * 64, 9}, {1100, 64, 6}};

TEST_P(Gated, PlainWeights) {
  SCOPED_TRACE(random.seed_text());
  for (const auto& [rows, n, k] : kSizes) {
    const std::vector<float> w = random.normal(n * k), bias = random.normal(n), x = random.normal(rows * k);
    const std::vector<uint16_t> rounded = to_bf16(x);
    for (const auto& [storage, compute] : {std::pair{DType::kBF16, DType::kBF16}, {DType::kF16, DType::kF32}, {DType::kF32, DType::kF32}}) {
      const Packed packed = pack(kernels, {.storage = storage, .compute = compute, .n = n, .k = k}, w.data(), DType::kF32);
      const Activation input = compute == DType::kBF16 ? Activation(MatrixView<const uint16_t>(rounded.data(), rows, k))
                                                       : Activation(ConstF32View(x.data(), rows, k));
      compare(input, packed.matrix, bias,
              [&](ThreadTeam& team, F32View out) { matmul(kernels, team, input, packed.matrix, bias.data(), out); });
      compare(input, packed.matrix, {}, [&](ThreadTeam& team, F32View out) { matmul(kernels, team, input, packed.matrix, nullptr, out); });
    }
  }
}

TEST_P(Gated, CodedWeights) {
  SCOPED_TRACE(random.seed_text());
  for (const Code code : kCodes) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
      if (dtype == DType::kU8 && code != Code::kInt8 && code != Code::kInt4) continue;
      for (const auto& [rows, n, k] : kSizes) {
        const CodedWeights w(random, random_shape(random, code, dtype, n, k));
        const int64_t runs = std::ssize(w.shape.run_end);
        const CodedInput x(random, dtype, rows, k, dtype == DType::kU8 ? runs : 0);
        const std::vector<float> bias = random.normal(n);
        const Activation input = x.rows(0, rows);
        SCOPED_TRACE(code_name(code));
        compare(input, w.matrix(), bias,
                [&](ThreadTeam& team, F32View out) { matmul_coded(kernels, team, input, w.matrix(), bias.data(), out); });
      }
    }
  }
}

TEST(GatedHalves, MustBePanels) {
  EXPECT_TRUE(halves_are_panels(64));
  EXPECT_TRUE(halves_are_panels(6144));
  EXPECT_FALSE(halves_are_panels(0));
  EXPECT_FALSE(halves_are_panels(32));
  EXPECT_FALSE(halves_are_panels(96));
}

INSTANTIATE_TEST_SUITE_P(Isas, Gated, ::testing::ValuesIn(usable_isas()), isa_case_name);

}  // namespace
}  // namespace lamina::kernels::testing
