// The header of a safetensors file: parse_safetensors(). The input is the file.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "checkpoint/safetensors.h"
#include "tests/fuzz/json_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t capacity);

namespace {

constexpr size_t kLengthBytes = 8;

}  // namespace

/// Half of the changes go to the values of the header, with a length that fits; the others to bytes, the length among them.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t capacity, unsigned int seed) {
  uint64_t length = 0;
  if (size < kLengthBytes || seed % 2 == 0) return LLVMFuzzerMutate(data, size, capacity);
  std::memcpy(&length, data, kLengthBytes);
  length = std::min<uint64_t>(length, size - kLengthBytes);
  const char* text = reinterpret_cast<const char*>(data);
  const std::string header = lamina::fuzz::mutate_json({text + kLengthBytes, length}, seed);
  const std::string tensors(text + kLengthBytes + length, text + size);
  if (kLengthBytes + header.size() + tensors.size() > capacity) return LLVMFuzzerMutate(data, size, capacity);
  length = header.size();
  std::memcpy(data, &length, kLengthBytes);
  std::memcpy(data + kLengthBytes, header.data(), header.size());
  std::memcpy(data + kLengthBytes + header.size(), tensors.data(), tensors.size());
  return kLengthBytes + header.size() + tensors.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tensors = lamina::parse_safetensors({data, size}, "input");
  if (!tensors.ok()) return 0;
  for (const lamina::TensorInfo& tensor : *tensors) {
    LAMINA_CHECK(tensor.begin <= tensor.end && tensor.end <= size, "a tensor lies outside the file");
    LAMINA_CHECK(tensor.elements() >= 0, "a tensor has a negative size");
  }
  return 0;
}
