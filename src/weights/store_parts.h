#pragma once
// What the stores of parameters are made of besides their values.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "tensor/dtype.h"

namespace lamina {

/// `bytes` up to whole cache lines.
constexpr size_t whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// An element of a file's F32, F16 or BF16 tensor; files do not align.
inline float element_f32(const uint8_t* element, DType dtype) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, element, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, sizeof(bits));
  return dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

/// What threads that fill a store find wrong. Keeps the least message, so that every run tells the same one.
class LeastFault {
 public:
  void add(Error fault) {
    const std::lock_guard lock(mutex_);
    if (!fault_ || fault.message < fault_->message) fault_ = std::move(fault);
  }
  /// After the last add().
  Status status() const { return fault_ ? Status(*fault_) : Status(); }

 private:
  std::mutex mutex_;
  std::optional<Error> fault_;
};

}  // namespace lamina
