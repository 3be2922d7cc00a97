#pragma once
// Changes JSON as JSON, so that inputs get past the parser: values are dropped, doubled, moved, and replaced by odd ones.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lamina::fuzz {

/// A changed document; `text` as it is when it is no JSON. The same seed gives the same.
std::string mutate_json(std::string_view text, uint32_t seed);

/// The body of LLVMFuzzerCustomMutator for an input that is one JSON document: two of three changes go to values, the others to bytes.
/// Returns the new size, at most `capacity`.
size_t mutate_json_input(uint8_t* data, size_t size, size_t capacity, uint32_t seed);

}  // namespace lamina::fuzz

/// For targets whose input is one JSON document.
#define LAMINA_FUZZ_JSON_INPUT()                                                                              \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t capacity, unsigned int seed) { \
    return lamina::fuzz::mutate_json_input(data, size, capacity, seed);                                       \
  }
