#include "tensor/dtype.h"

#include "base/strings.h"

namespace lamina {
namespace {

struct DTypeRow {
  DType dtype;
  int bytes;
  const char* name;
  const char* torch_name;
};
constexpr DTypeRow kRows[] = {
    {DType::kF32, 4, "F32", "float32"},
    {DType::kF16, 2, "F16", "float16"},
    {DType::kBF16, 2, "BF16", "bfloat16"},
    {DType::kF8E4M3, 1, "F8_E4M3", "float8_e4m3fn"},
    {DType::kF8E5M2, 1, "F8_E5M2", "float8_e5m2"},
    {DType::kI8, 1, "I8", "int8"},
    {DType::kU8, 1, "U8", "uint8"},
    {DType::kI16, 2, "I16", "int16"},
    {DType::kI32, 4, "I32", "int32"},
    {DType::kI64, 8, "I64", "int64"},
    {DType::kF64, 8, "F64", "float64"},
    {DType::kBool, 1, "BOOL", "bool"},
    {DType::kF8E8M0, 1, "F8_E8M0", "float8_e8m0fnu"},
};

constexpr bool rows_follow_the_enum() {
  int index = 0;
  for (const DTypeRow& row : kRows) {
    if (static_cast<int>(row.dtype) != index++) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const DTypeRow& row_of(DType dtype) { return kRows[static_cast<int>(dtype)]; }

std::string allowed(const char* DTypeRow::* spelling) {
  std::vector<std::string> names;
  for (const DTypeRow& row : kRows) names.emplace_back(row.*spelling);
  return join(names, ", ");
}

}  // namespace

int dtype_bytes(DType dtype) { return row_of(dtype).bytes; }
const char* dtype_name(DType dtype) { return row_of(dtype).name; }
const char* torch_dtype_name(DType dtype) { return row_of(dtype).torch_name; }

Result<DType> parse_safetensors_dtype(std::string_view name) {
  for (const DTypeRow& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return error("dtype '", name, "' is not supported; supported: ", allowed(&DTypeRow::name));
}

Result<DType> parse_torch_dtype(std::string_view name) {
  std::string_view plain = name;
  if (plain.starts_with("torch.")) plain.remove_prefix(6);
  if (plain == "half") return DType::kF16;
  if (plain == "float") return DType::kF32;
  for (const DTypeRow& row : kRows) {
    if (plain == row.torch_name) return row.dtype;
  }
  return error("dtype '", name, "' is not supported; supported: ", allowed(&DTypeRow::torch_name));
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = bits >> 10 & 0x1FU;
  const uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24 is exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return __builtin_bit_cast(float, sign | wide << 23 | fraction << 13);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
  if (magnitude >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7C00U);  // 65536 and above, infinity
  // Below 2^-14 the unit in the last place is 2^-24, above it 2^(exponent - 10): cut there, round half to even.
  uint32_t kept, rest, half;
  if (magnitude < 0x38800000U) {
    const uint32_t exponent = magnitude >> 23;
    const uint32_t shift = 126 - exponent;
    if (shift > 25) return sign;  // below a quarter of the smallest subnormal, where the shift would leave the word
    const uint32_t fraction = (magnitude & 0x7FFFFFU) | 0x800000U;
    kept = fraction >> shift, rest = fraction & ((1U << shift) - 1), half = 1U << (shift - 1);
  } else {
    const uint32_t rebased = magnitude - (112U << 23);
    kept = rebased >> 13, rest = rebased & 0x1FFFU, half = 0x1000U;
  }
  if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;  // a carry into the exponent is right, up to infinity
  return static_cast<uint16_t>(sign | kept);
}

}  // namespace lamina
