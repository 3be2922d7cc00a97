#include "weights/dummy.h"

#include <algorithm>
#include <vector>

namespace lamina {

namespace {

constexpr float kHalfWidth = 0.03F * 1.7320508F;  // a uniform deviate on [-a, a] has deviation a / sqrt(3)
constexpr int64_t kLanes = 4;                     // values a hash yields

/// The finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// FNV-1a.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  return hash;
}

/// Columns [col, col + count) of a row, in bf16.
void fill_row(uint64_t row_key, int64_t col, int64_t count, float centre, uint16_t* out) {
  for (int64_t c = col; c < col + count;) {
    uint64_t bits = mix(row_key + static_cast<uint64_t>(c / kLanes) * 0x9E3779B97F4A7C15ULL) >> (c % kLanes * 16);
    for (const int64_t end = std::min(col + count, (c / kLanes + 1) * kLanes); c < end; ++c, bits >>= 16) {
      *out++ = f32_to_bf16(centre + static_cast<float>(static_cast<int16_t>(bits)) * (kHalfWidth / 32768.0F));
    }
  }
}

}  // namespace

void put_dummy(Param& param, const LoadPiece& piece) {
  const std::string name = param.part_name(piece.part);
  const uint64_t key = hash_name(name);
  std::vector<uint16_t> values(static_cast<size_t>(piece.rows * piece.cols));
  if (param.is_vector()) {
    fill_row(key, piece.source_row, piece.rows, name.ends_with(".bias") ? 0.0F : 1.0F, values.data());
  } else {
    for (int64_t r = 0; r < piece.rows; ++r) {
      const uint64_t row_key = mix(key + static_cast<uint64_t>(piece.source_row + r) + 1);
      fill_row(row_key, piece.source_col, piece.cols, 0.0F, values.data() + r * piece.cols);
    }
  }
  param.store->put(piece.local_row, {values.data(), DType::kBF16, piece.rows, piece.cols, piece.cols});
}

}  // namespace lamina
