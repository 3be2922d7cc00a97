#include "tests/kernels/coded_support.h"

#include <cmath>

#include "kernels/float8.h"

namespace lamina::kernels::testing {
namespace {

Buffer memory(size_t bytes) {
  auto buffer = Buffer::allocate(bytes);
  EXPECT_TRUE(buffer.ok());
  return std::move(buffer).value();
}

float representable(float value, DType dtype) {
  if (dtype == DType::kF16) return f16_to_f32(f32_to_f16(value));
  if (dtype == DType::kBF16) return bf16_to_f32(f32_to_bf16(value));
  if (dtype == DType::kF8E4M3) return e4m3_to_f32(f32_to_e4m3(value));
  if (dtype == DType::kU8) return std::exp2(std::round(std::log2(value)));
  return value;
}

}  // namespace

const char* code_name(Code code) {
  constexpr const char* kNames[] = {"int8", "uint8", "int4", "e4m3", "e2m1"};
  return kNames[static_cast<int>(code)];
}

CodedWeights::CodedWeights(Random& random, const CodedShape& s) : shape(s) {
  const auto runs = static_cast<int64_t>(s.run_end.size());
  const int64_t largest = code_bits(s.code) == 4 ? 15 : 255;
  for (int64_t i = 0; i < s.n * s.k; ++i) {
    auto code = static_cast<uint8_t>(random.integer(0, largest));
    if (s.code == Code::kFp8E4m3 && (code & 0x7F) == 0x7F) --code;  // NaN has tests of its own
    codes.push_back(code);
  }
  for (const float x : random.normal(s.n * runs)) scales.push_back(representable(std::fabs(x) * 0.1F + 0.02F, s.scale_dtype));
  if (s.zeros)
    for (int64_t i = 0; i < s.n * runs; ++i) zeros.push_back(static_cast<uint8_t>(random.integer(0, largest == 15 ? 16 : 255)));
  if (s.row_scales)
    for (const float x : random.normal(s.n)) row_scales.push_back(x);
  matrix_ = {.code = s.code, .n = s.n, .k = s.k, .runs = runs, .run_end = shape.run_end.data(), .scale_dtype = s.scale_dtype};
  code_memory_ = memory(matrix_.code_bytes()), matrix_.codes = code_memory_.data();
  scale_memory_ = memory(matrix_.scale_bytes()), matrix_.scales = scale_memory_.data();
  pack_codes(matrix_, 0, s.n, codes.data(), s.k);
  pack_scales(matrix_, 0, s.n, scales.data(), runs);
  if (s.zeros) {
    zero_memory_ = memory(matrix_.zero_bytes()), matrix_.zeros = zero_memory_.as<uint8_t>();
    pack_zeros(matrix_, 0, s.n, zeros.data(), runs);
  } else if (s.code == Code::kInt4 || s.code == Code::kUInt8) {
    matrix_.zero = static_cast<int>(random.integer(0, largest));
  }
  if (!s.row_scales) return;
  row_scale_memory_ = memory(static_cast<size_t>(matrix_.panels() * kPanelRows) * sizeof(float));
  matrix_.row_scales = row_scale_memory_.as<float>();
  for (int64_t r = 0; r < s.n; ++r) matrix_.row_scales[r] = row_scales[static_cast<size_t>(r)];
}

double CodedWeights::level(int64_t row, int64_t k, int64_t run) const {
  const uint8_t code = codes[static_cast<size_t>(row * shape.k + k)];
  const int zero = shape.zeros ? zeros[static_cast<size_t>(row * matrix_.runs + run)] : matrix_.zero;
  return static_cast<double>(decode(shape.code, code)) - zero;
}

double CodedWeights::scale(int64_t row, int64_t run) const {
  const auto scale = static_cast<double>(scales[static_cast<size_t>(row * matrix_.runs + run)]);
  return shape.row_scales ? scale * static_cast<double>(row_scales[static_cast<size_t>(row)]) : scale;
}

std::vector<int32_t> random_runs(Random& random, int64_t k) {
  std::vector<int32_t> ends;
  const int64_t kind = random.integer(0, 3);
  for (int64_t end = 0; end < k;) {
    const int64_t lengths[] = {k, 32, end == 0 ? random.integer(1, 128) : 128, random.integer(1, 70)};
    end = std::min(k, end + lengths[kind]);
    ends.push_back(static_cast<int32_t>(end));
  }
  return ends;
}

CodedShape random_shape(Random& random, Code code, DType x, int64_t n, int64_t k) {
  constexpr DType kScales[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kU8};
  return {.code = code,
          .n = n,
          .k = k,
          .run_end = random_runs(random, k),
          .scale_dtype = kScales[random.integer(0, 4)],
          .zeros = (code == Code::kInt4 || (code == Code::kUInt8 && x != DType::kU8)) && random.integer(0, 1) == 1,
          .row_scales = random.integer(0, 2) == 0};
}

CodedInput::CodedInput(Random& random, DType dtype, int64_t rows, int64_t cols, int64_t scale_runs)
    : dtype_(dtype), cols_(cols), scale_runs_(scale_runs), values_(random.normal(rows * cols, dtype == DType::kU8 ? 50.0F : 1.0F)) {
  if (dtype == DType::kBF16) bf16_ = to_bf16(values_), values_ = from_bf16(bf16_);
  if (dtype == DType::kU8)
    for (float& value : values_) {
      value = std::round(std::clamp(value, -128.0F, 127.0F));
      codes_.push_back(static_cast<uint8_t>(value + 128.0F));
    }
  if (scale_runs > 0)
    for (const float x : random.normal(rows * scale_runs)) scales_.push_back(std::fabs(x) + 0.01F);
}

Activation CodedInput::rows(int64_t row, int64_t count) const {
  Activation x;
  const int64_t begin = row * cols_;
  const void* from[] = {values_.data() + begin, dtype_ == DType::kBF16 ? bf16_.data() + begin : nullptr,
                        dtype_ == DType::kU8 ? codes_.data() + begin : nullptr};
  x.dtype = dtype_, x.rows = count, x.cols = cols_, x.stride = cols_;
  x.data = from[dtype_ == DType::kF32 ? 0 : dtype_ == DType::kBF16 ? 1 : 2];
  if (scale_runs_ > 0) x.scales = {scales_.data() + row * scale_runs_, count, scale_runs_};
  return x;
}

double CodedInput::scale(int64_t row, int64_t run) const {
  if (scale_runs_ == 0) return 1.0;
  return static_cast<double>(scales_[static_cast<size_t>(row * scale_runs_ + (scale_runs_ > 1 ? run : 0))]);
}

}  // namespace lamina::kernels::testing
