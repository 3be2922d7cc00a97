#pragma once
// Coded matrices with their memory, and activations of every kind that multiplies them.

#include "base/strings.h"
#include "kernels/quantised.h"
#include "tests/kernels/support.h"

namespace lamina::kernels::testing {

inline constexpr Code kCodes[] = {Code::kInt8, Code::kUInt8, Code::kInt4, Code::kFp8E4m3, Code::kFp4E2m1};
const char* code_name(Code code);

/// What a matrix consists of, in plain numbers.
struct CodedShape {
  Code code = Code::kInt8;
  int64_t n = 0;
  int64_t k = 0;
  std::vector<int32_t> run_end;
  DType scale_dtype = DType::kF32;
  bool zeros = false;       // one a row and run
  bool row_scales = false;  // one a row
};

/// A matrix of random codes; what it holds in plain arrays beside the packed copy.
class CodedWeights {
 public:
  CodedWeights(Random& random, const CodedShape& shape);
  /// A view of the packed copy.
  const CodedMatrix& matrix() const { return matrix_; }
  /// decode(code) - zero, exact.
  double level(int64_t row, int64_t k, int64_t run) const;
  double scale(int64_t row, int64_t run) const;

  CodedShape shape;
  std::vector<uint8_t> codes;     // [n, k]
  std::vector<float> scales;      // [n, runs]
  std::vector<uint8_t> zeros;     // [n, runs]
  std::vector<float> row_scales;  // [n]

 private:
  Buffer code_memory_, scale_memory_, zero_memory_, row_scale_memory_;
  CodedMatrix matrix_;
};

/// Ends of runs over k: one run, runs of 32, blocks of 128 of which the first is short, or of any length.
std::vector<int32_t> random_runs(Random& random, int64_t k);
/// Any shape, scale type and zeros that `code` allows, codes for `x` dtype.
CodedShape random_shape(Random& random, Code code, DType x, int64_t n, int64_t k);

/// Rows of an activation in one of the types that multiply codes.
class CodedInput {
 public:
  /// `scale_runs`: 0 (no scales), 1 (one a row) or the runs of the matrix.
  CodedInput(Random& random, DType dtype, int64_t rows, int64_t cols, int64_t scale_runs);
  Activation rows(int64_t row, int64_t count) const;
  double value(int64_t row, int64_t k) const { return static_cast<double>(values_[static_cast<size_t>(row * cols_ + k)]); }
  double scale(int64_t row, int64_t run) const;

 private:
  DType dtype_;
  int64_t cols_;
  int64_t scale_runs_;
  std::vector<float> values_;
  std::vector<uint16_t> bf16_;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_;
};

}  // namespace lamina::kernels::testing
