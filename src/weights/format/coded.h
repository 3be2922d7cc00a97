#pragma once
// What the formats of codes share. A format says which tensors a layer has on disk and how their words become codes and zero points
// (PublishedLayout); everything else is here: shards, groups, memory, the activation rule, the matmul.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/quant_config.h"
#include "kernels/quantised.h"
#include "weights/format.h"

namespace lamina {

/// One tensor of a layer as published.
struct PublishedTensor {
  std::string leaf;                       // "qweight"
  std::vector<std::string> aliases = {};  // other spellings
  std::vector<DiskDim> disk = {};
  std::vector<DType> dtypes = {};
  DummyBits dummy = {};
  bool optional = false;
};

/// Codes of matrix rows [row, row + count) of `source` (counted from source.first_row), one a byte, local columns [0, cols): out [count,
/// cols].
using UnpackCodes = void (*)(const QuantScheme& scheme, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out);
/// The zero point of matrix row `row` (as above) in unit `unit` of the source's columns, in code units. What the kernels cannot hold is
/// outside [0, 255].
using UnpackZero = int (*)(const QuantScheme& scheme, const SourceRows& source, int64_t row, int64_t unit);

struct PublishedLayout {
  kernels::Code code = kernels::Code::kInt8;
  int zero = 0;  // where there is no zero point tensor, or one that must say this everywhere (symmetric)
  PublishedTensor codes;
  UnpackCodes unpack = nullptr;
  PublishedTensor scales;
  std::optional<PublishedTensor> zeros;
  UnpackZero unpack_zero = nullptr;
  std::optional<PublishedTensor> index;         // [K]: the group of each input
  std::optional<PublishedTensor> shape;         // weight_shape [2]
  std::optional<PublishedTensor> global_scale;  // one f32 a part
  bool global_scale_divides = false;
  std::optional<PublishedTensor> input_scale;  // one a part; read and checked even where inputs stay plain
};

// One file each.
PublishedLayout fp8_layout(const LinearShape& shape, const QuantScheme& scheme);
PublishedLayout int8_layout(const LinearShape& shape, const QuantScheme& scheme);
PublishedLayout packed_layout(const LinearShape& shape, const QuantScheme& scheme);
PublishedLayout gptq_layout(const LinearShape& shape, const QuantScheme& scheme);
PublishedLayout awq_layout(const LinearShape& shape, const QuantScheme& scheme);
PublishedLayout fp4_layout(const LinearShape& shape, const QuantScheme& scheme);

/// Memory for the inputs of a matmul, shared by the layers of one rank, which run one after the other.
class InputScratch {
 public:
  static constexpr int64_t kRows = 512;  // a matmul of more rows goes in parts
  /// Says before reserve() what a layer's matmul takes.
  void need(size_t bytes) { needed_ = std::max(needed_, bytes); }
  /// The most that one layer takes: what reserve() reserves, once however often it is called.
  size_t needed() const { return needed_; }
  Status reserve();
  uint8_t* data() const { return buffer_.data(); }

 private:
  size_t needed_ = 0;
  Buffer buffer_;
};

/// What a layer of codes is made with, besides its shape and scheme.
struct CodedOptions {
  DType model_dtype = DType::kBF16;
  bool act_quant = true;                  // false: inputs stay plain
  std::shared_ptr<InputScratch> scratch;  // owners: the format and its layers
};

/// Declares the layer's parameters and returns the shell that reads them.
Result<std::unique_ptr<LinearWeights>> create_coded(const LinearShape& shape, const QuantScheme& scheme, const PublishedLayout& layout,
                                                    const CodedOptions& options, ParamList& params);

// For formats: reading words that may lie unaligned in a file.

/// 32-bit word `col` of row `row`.
inline uint32_t word_at(const SourceRows& source, int64_t row, int64_t col) {
  uint32_t word;
  std::memcpy(&word, static_cast<const uint8_t*>(source.data) + (row * source.stride + col) * 4, sizeof(word));
  return word;
}

/// Where element `first + i` of an axis lies in a source that begins with the word of element `first`: bits after the first word's start.
inline int64_t bit_of(int bits, int word_bits, int64_t first, int64_t i) {
  return (first + i) * bits - first * bits / word_bits * word_bits;
}

/// `bits` bits from bit `bit` on of a stream of 32-bit words, low bits first; `word(i)` gives word i.
template <class Word>
uint32_t bits_at(int bits, int64_t bit, const Word& word) {
  const int shift = static_cast<int>(bit % 32);
  uint64_t window = word(bit / 32);
  if (shift + bits > 32) window |= static_cast<uint64_t>(word(bit / 32 + 1)) << 32;
  return static_cast<uint32_t>(window >> shift) & ((1U << bits) - 1);
}

/// Elements [first, first + count) of such a stream that begins with the word of element `first`, a byte each, xor `flip`.
template <class Word>
void unpack_stream(int bits, int64_t first, int64_t count, uint32_t flip, uint8_t* out, const Word& word) {
  int64_t bit = bit_of(bits, 32, first, 0);
  if (32 % bits != 0) {
    for (; count > 0; --count, bit += bits) *out++ = static_cast<uint8_t>(bits_at(bits, bit, word) ^ flip);
    return;
  }
  const uint32_t mask = (1U << bits) - 1;
  while (count > 0) {
    const int shift = static_cast<int>(bit % 32);
    const int64_t here = std::min<int64_t>((32 - shift) / bits, count);
    uint32_t rest = word(bit / 32) >> shift;
    for (int64_t i = 0; i < here; ++i, rest >>= bits) *out++ = static_cast<uint8_t>((rest & mask) ^ flip);
    bit += here * bits;
    count -= here;
  }
}

// Scales and dummies that several formats publish alike.

/// PublishedLayout::unpack where the file holds a byte a code.
void unpack_bytes(const QuantScheme& scheme, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out);
/// The stored scale of a layer's inputs.
PublishedTensor input_scale_tensor();
/// weight_scale by the scheme's rows and columns that share one.
PublishedTensor scales_tensor(const QuantScheme& scheme, std::string leaf);
/// The columns' dimension of scales and zero points: groups, all of them when g_idx assigns inputs to them.
DiskDim group_dim(const LinearShape& shape, const QuantScheme& scheme);
/// Random codes of any kind.
inline constexpr DummyBits kDummyWords{.dtype = DType::kI32, .keep = 0xFFFFFFFFU, .set = 0};

}  // namespace lamina
