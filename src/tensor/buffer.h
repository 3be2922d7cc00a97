#pragma once
// Owning memory: page-aligned, advised huge, zero-filled by the kernel, committed on first touch.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "tensor/view.h"

namespace lamina {

/// Anonymous memory, 64-byte aligned at least (2 MB aligned and advised huge from 1 MB up). Movable; reads as zero until written.
class Buffer {
 public:
  Buffer() = default;
  /// An error names the size when the machine refuses it.
  static Result<Buffer> allocate(size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;
};

/// Memory of one step: bump allocation from one buffer, everything freed at once by reset(). Overflow is a CHECK: the plan sizes it.
class Arena {
 public:
  static constexpr int64_t kActivationPad = 128;
  explicit Arena(Buffer buffer) : buffer_(std::move(buffer)) {}

  template <class T>
  T* take(int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<size_t>(count) * sizeof(T)));
  }
  F32View matrix(int64_t rows, int64_t cols) { return {take<float>(rows * cols), rows, cols}; }
  /// An uninitialised matmul input of `dtype` (kF32, kBF16 or kU8), rows padded by at most kActivationPad bytes.
  MutableActivation activation(DType dtype, int64_t rows, int64_t cols);
  void* take_bytes(size_t bytes);  // 64-byte aligned

  void reset() { used_ = 0; }
  size_t mark() const { return used_; }
  /// Frees what was taken since mark().
  void release(size_t mark) { used_ = mark; }
  size_t capacity() const { return buffer_.size(); }
  size_t peak() const { return peak_; }

 private:
  Buffer buffer_;
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace lamina
