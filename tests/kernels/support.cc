#include "tests/kernels/support.h"

#include <cstdlib>
#include <cstring>

#include "base/strings.h"

namespace lamina::kernels::testing {

std::vector<Isa> usable_isas() { return supported_isas(decode_features(read_cpuid())); }

std::string isa_case_name(const ::testing::TestParamInfo<Isa>& info) { return isa_name(info.param); }

Random::Random(uint64_t salt) {
  const char* forced = std::getenv("LAMINA_TEST_SEED");
  seed_ = forced != nullptr ? std::strtoull(forced, nullptr, 10) : salt;
  engine_.seed(seed_);
}

std::string Random::seed_text() const { return cat("LAMINA_TEST_SEED=", seed_); }

int64_t Random::integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

std::vector<float> Random::normal(int64_t count, float deviation) {
  std::normal_distribution<float> distribution(0.0F, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = distribution(engine_);
  EXPECT_TRUE(count == 1 || values.front() != values.back()) << "test data must vary";
  return values;
}

std::vector<uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(f32_to_bf16(value));
  return out;
}

std::vector<uint16_t> to_f16(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(f32_to_f16(value));
  return out;
}

std::vector<float> from_bf16(const std::vector<uint16_t>& values) {
  std::vector<float> out;
  for (const uint16_t value : values) out.push_back(bf16_to_f32(value));
  return out;
}

Packed make_packed(const PackedMatrix& shape) {
  Packed packed{.buffer = {}, .matrix = shape};
  auto buffer = Buffer::allocate(packed.matrix.bytes());
  EXPECT_TRUE(buffer.ok());
  packed.buffer = std::move(buffer).value();
  packed.matrix.data = packed.buffer.data();
  return packed;
}

Packed pack(const Kernels& kernels, const PackedMatrix& shape, const void* src, DType src_dtype) {
  Packed packed = make_packed(shape);
  kernels.pack_rows(packed.matrix, 0, shape.n, src, src_dtype, shape.k);
  return packed;
}

::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes " << a.size() << " and " << b.size();
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  return ::testing::AssertionSuccess();
}

}  // namespace lamina::kernels::testing
