#pragma once
// What the kernel tests share: the paths this machine has, seeded data, packed copies.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/buffer.h"

namespace lamina::kernels::testing {

/// Every path this CPU can run.
std::vector<Isa> usable_isas();
std::string isa_case_name(const ::testing::TestParamInfo<Isa>& info);

/// One test case per path; `kernels` is the path's table.
class KernelTest : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels = table(GetParam());
};

/// Seeded data. The seed is fixed, or LAMINA_TEST_SEED; a failing test prints it (SCOPED_TRACE(random.seed_text())).
class Random {
 public:
  explicit Random(uint64_t salt);
  std::string seed_text() const;
  int64_t integer(int64_t low, int64_t high);  // both included
  /// Normal values, each row of them different.
  std::vector<float> normal(int64_t count, float deviation = 1.0F);

 private:
  uint64_t seed_;
  std::mt19937_64 engine_;
};

std::vector<uint16_t> to_bf16(const std::vector<float>& values);
std::vector<uint16_t> to_f16(const std::vector<float>& values);
std::vector<float> from_bf16(const std::vector<uint16_t>& values);

/// A packed matrix with its memory.
struct Packed {
  Buffer buffer;
  PackedMatrix matrix;
};
/// `shape` is a matrix without data.
Packed make_packed(const PackedMatrix& shape);
/// Packs all rows of `src` in one call.
Packed pack(const Kernels& kernels, const PackedMatrix& shape, const void* src, DType src_dtype);

/// Equal to the bit (NaN equals the same NaN, -0 differs from 0).
::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace lamina::kernels::testing
