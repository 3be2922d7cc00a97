#include "weights/dummy.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lamina {

namespace {

constexpr int64_t kLanes = 4;  // values a hash yields

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

/// Columns [group * kLanes, (group + 1) * kLanes) of a row: bf16 values with random sign and mantissa and an exponent of -8 to -5, which
/// makes their deviation 0.0274; made of bits, because arithmetic would be slower than the memory they go to.
uint64_t four_values(uint64_t row_key, int64_t group) {
  constexpr uint64_t kRandom = 0x81FF81FF81FF81FFULL;    // sign, two low bits of the exponent, mantissa
  constexpr uint64_t kExponent = 0x3B803B803B803B80ULL;  // 127 - 8 in the exponent's place
  return (mix(row_key + static_cast<uint64_t>(group) * 0x9E3779B97F4A7C15ULL) & kRandom) + kExponent;
}

/// Columns [col, col + count) of a row.
void fill_row(uint64_t row_key, int64_t col, int64_t count, uint16_t* out) {
  for (const int64_t end = col + count; col < end;) {
    uint64_t word = four_values(row_key, col / kLanes);
    if (col % kLanes == 0 && end - col >= kLanes) {
      std::memcpy(out, &word, sizeof(word));
      out += kLanes, col += kLanes;
      continue;
    }
    for (word >>= col % kLanes * 16; col < end; word >>= 16) {
      *out++ = static_cast<uint16_t>(word);
      if (++col % kLanes == 0) break;
    }
  }
}

/// A tensor of codes or scales: bits by the place on disk.
void put_bits(Param& param, const LoadPiece& piece, std::string_view name) {
  const DummyBits bits = param.store->dummy();
  const DiskRect rect = disk_rect(param, piece);
  const int64_t bytes = rect.cols * dtype_bytes(bits.dtype);
  std::vector<uint32_t> values(static_cast<size_t>(rect.rows * bytes + 3) / 4);
  auto* out = reinterpret_cast<uint8_t*>(values.data());
  for (int64_t r = 0; r < rect.rows; ++r) {
    const uint64_t row_key = mix(hash_name(name) + static_cast<uint64_t>(rect.row + r) + 1);
    const int64_t begin = rect.col * dtype_bytes(bits.dtype);
    for (int64_t at = begin; at < begin + bytes;) {
      const int64_t skip = at % 4, count = std::min(4 - skip, begin + bytes - at);
      const uint32_t word = (static_cast<uint32_t>(mix(row_key + static_cast<uint64_t>(at / 4))) & bits.keep) | bits.set_of(at / 4);
      std::memcpy(out, reinterpret_cast<const uint8_t*>(&word) + skip, static_cast<size_t>(count));
      out += count, at += count;
    }
  }
  param.store->put(piece.local_row, {.data = values.data(),
                                     .dtype = bits.dtype,
                                     .rows = rect.rows,
                                     .cols = rect.cols,
                                     .stride = rect.cols,
                                     .part = piece.part,
                                     .count = piece.rows,
                                     .first_row = piece.source_row,
                                     .first_col = piece.source_col,
                                     .tensor = name});
}

/// Few rows at a time, so that they are still in the cache when they are packed.
void put_matrix(Param& param, const LoadPiece& piece, std::string_view name, uint64_t key) {
  const int64_t grain = param.store->row_grain();
  const DiskRect rect = source_rect(param, piece);
  std::vector<uint16_t> values(static_cast<size_t>(std::min(grain, piece.rows) * rect.cols));
  for (int64_t row = 0; row < piece.rows;) {
    const int64_t count = std::min(piece.rows - row, grain - (piece.local_row + row) % grain);
    for (int64_t r = 0; r < count; ++r) {
      const uint64_t row_key = mix(key + static_cast<uint64_t>(rect.row + row + r) + 1);
      fill_row(row_key, rect.col, rect.cols, values.data() + r * rect.cols);
    }
    param.store->put(piece.local_row + row, {.data = values.data(),
                                             .dtype = DType::kBF16,
                                             .rows = count,
                                             .cols = rect.cols,
                                             .stride = rect.cols,
                                             .part = piece.part,
                                             .count = count,
                                             .first_row = piece.source_row + row,
                                             .first_col = piece.source_col,
                                             .tensor = name});
    row += count;
  }
}

}  // namespace

void put_dummy(Param& param, const LoadPiece& piece) {
  const std::string name = param.part_name(piece.part);
  if (!param.is_plain() && !param.store->dummy().plain) return put_bits(param, piece, name);
  const uint64_t key = hash_name(name);
  if (param.is_vector()) {
    std::vector<uint16_t> values(static_cast<size_t>(piece.rows));
    fill_row(key, piece.source_row, piece.rows, values.data());
    const float centre = name.ends_with(".bias") ? 0.0F : 1.0F;
    for (uint16_t& v : values) v = f32_to_bf16(centre + bf16_to_f32(v));
    return param.store->put(piece.local_row, {values.data(), DType::kBF16, piece.rows, 1, 1});
  }
  put_matrix(param, piece, name, key);
}

}  // namespace lamina
