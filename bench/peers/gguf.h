#pragma once
// GGUF files, version 3, as far as a decoder of made-up numbers needs them: what the peer reads. The format is described in ggml's
// docs/gguf.md: a header of typed keys and of tensor descriptions, then the tensors, each aligned to 32 bytes.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::bench {

/// Element types by their numbers in the file. q8_0 and q4_0 store 32 values of a row as a block of one f16 scale and the codes.
enum class GgufType : uint32_t { kF32 = 0, kQ4_0 = 2, kQ8_0 = 8, kBF16 = 30 };

/// Bytes of `elements` values; for the block types a multiple of 32.
uint64_t gguf_bytes(GgufType type, uint64_t elements);

/// Stores bf16 values as `type` stores them; `out` has gguf_bytes(type, values.size()). q8_0: codes of 8 bits, the scale is the largest
/// absolute value / 127. q4_0: codes 0 to 15 that stand for -8 to 7 scales, so that the value of largest magnitude is code 0.
void encode(GgufType type, std::span<const uint16_t> values, uint8_t* out);

/// Builds what stands before the tensors' bytes. Keys and tensors come out in the order they are given.
class GgufHeader {
 public:
  void set(std::string_view key, uint32_t value);
  void set(std::string_view key, float value);
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
  /// `shape` as in the checkpoint, rows first. Its bytes begin at the sum of the padded sizes of those before it.
  void add_tensor(std::string_view name, std::span<const int64_t> shape, GgufType type);
  /// The whole header, padded so that the first tensor may follow.
  std::string bytes() const;
  /// Of all tensors together, padding included.
  uint64_t tensor_bytes() const { return offset_; }

 private:
  std::string keys_, tensors_;
  uint64_t key_count_ = 0, tensor_count_ = 0, offset_ = 0;
};

/// Bytes up to the next multiple of the files' alignment.
uint64_t gguf_padding(uint64_t bytes);

}  // namespace lamina::bench
