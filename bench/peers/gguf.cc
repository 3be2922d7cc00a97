#include "bench/peers/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "tensor/dtype.h"

namespace lamina::bench {
namespace {

constexpr uint64_t kAlignment = 32;
constexpr size_t kBlock = 32;
constexpr uint32_t kVersion = 3;

enum ValueType : uint32_t { kUint32 = 4, kFloat32 = 6, kString = 8 };

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  out += text;
}

/// Writes the block's scale and returns what its values are multiplied by.
float put_scale(float scale, uint8_t* out) {
  const uint16_t bits = f32_to_f16(scale);
  std::memcpy(out, &bits, sizeof bits);
  return scale == 0 ? 0 : 1 / scale;
}

void encode_q8_0(const float* x, uint8_t* out) {
  float largest = 0;
  for (size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float inverse = put_scale(largest / 127, out);
  for (size_t i = 0; i < kBlock; ++i) out[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::lrintf(x[i] * inverse)));
}

void encode_q4_0(const float* x, uint8_t* out) {
  float extreme = 0;
  for (size_t i = 0; i < kBlock; ++i) extreme = std::fabs(x[i]) > std::fabs(extreme) ? x[i] : extreme;
  const float inverse = put_scale(extreme / -8, out);
  const auto code = [&](size_t i) { return static_cast<uint8_t>(std::min(15, static_cast<int>(std::lrintf(x[i] * inverse)) + 8)); };
  constexpr size_t kHalf = kBlock / 2;  // a byte holds a value of the first half below one of the second
  for (size_t i = 0; i < kHalf; ++i) out[2 + i] = static_cast<uint8_t>(code(i) | (code(i + kHalf) << 4));
}

}  // namespace

uint64_t gguf_bytes(GgufType type, uint64_t elements) {
  switch (type) {
    case GgufType::kF32:
      return 4 * elements;
    case GgufType::kBF16:
      return 2 * elements;
    case GgufType::kQ8_0:
      return elements / kBlock * (2 + kBlock);
    case GgufType::kQ4_0:
      return elements / kBlock * (2 + kBlock / 2);
  }
  return 0;
}

void encode(GgufType type, std::span<const uint16_t> values, uint8_t* out) {
  if (type == GgufType::kBF16) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  if (type == GgufType::kF32) {
    for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<float*>(out)[i] = bf16_to_f32(values[i]);
    return;
  }
  LAMINA_CHECK(values.size() % kBlock == 0, "rows are whole blocks");
  float x[kBlock];
  for (size_t begin = 0; begin < values.size(); begin += kBlock, out += gguf_bytes(type, kBlock)) {
    for (size_t i = 0; i < kBlock; ++i) x[i] = bf16_to_f32(values[begin + i]);
    type == GgufType::kQ8_0 ? encode_q8_0(x, out) : encode_q4_0(x, out);
  }
}

void GgufHeader::set(std::string_view key, uint32_t value) {
  append_string(keys_, key);
  append(keys_, uint32_t{kUint32});
  append(keys_, value);
  ++key_count_;
}

void GgufHeader::set(std::string_view key, float value) {
  append_string(keys_, key);
  append(keys_, uint32_t{kFloat32});
  append(keys_, value);
  ++key_count_;
}

void GgufHeader::set(std::string_view key, std::string_view value) {
  append_string(keys_, key);
  append(keys_, uint32_t{kString});
  append_string(keys_, value);
  ++key_count_;
}

void GgufHeader::add_tensor(std::string_view name, std::span<const int64_t> shape, GgufType type) {
  append_string(tensors_, name);
  append(tensors_, static_cast<uint32_t>(shape.size()));
  uint64_t elements = 1;
  for (size_t i = shape.size(); i-- > 0; elements *= static_cast<uint64_t>(shape[i])) append(tensors_, static_cast<uint64_t>(shape[i]));
  append(tensors_, static_cast<uint32_t>(type));
  append(tensors_, offset_);
  const uint64_t bytes = gguf_bytes(type, elements);
  offset_ += bytes + gguf_padding(bytes);
  ++tensor_count_;
}

std::string GgufHeader::bytes() const {
  std::string out = "GGUF";
  append(out, kVersion);
  append(out, tensor_count_);
  append(out, key_count_);
  out += keys_;
  out += tensors_;
  out.append(gguf_padding(out.size()), '\0');
  return out;
}

uint64_t gguf_padding(uint64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

}  // namespace lamina::bench
