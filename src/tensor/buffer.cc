#include "tensor/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace lamina {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kHugeFrom = size_t{1} << 20;
constexpr size_t kLine = 64;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Result<Buffer> Buffer::allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page;
  if (bytes > physical) return error("cannot allocate ", bytes, " bytes: this machine has ", physical, " bytes of memory");
  const bool huge = bytes >= kHugeFrom;
  const size_t wanted = round_up(bytes, huge ? kHugePage : page);
  // mmap aligns to a page only: map one huge page more and cut both ends off.
  const size_t mapped = wanted + (huge ? kHugePage : 0);
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return error("cannot allocate ", bytes, " bytes: ", std::string_view(std::strerror(errno)));
  auto* begin = static_cast<uint8_t*>(raw);
  if (huge) {
    auto* aligned = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uintptr_t>(begin), kHugePage));
    const auto front = static_cast<size_t>(aligned - begin);
    if (front > 0) munmap(begin, front);
    if (front < kHugePage) munmap(aligned + wanted, kHugePage - front);
    begin = aligned;
    madvise(begin, wanted, MADV_HUGEPAGE);  // a wish: a kernel without huge pages is only slower
  }
  buffer.data_ = begin;
  buffer.size_ = bytes;
  buffer.mapped_ = wanted;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

MutableActivation Arena::activation(DType dtype, int64_t rows, int64_t cols) {
  LAMINA_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kU8, "a matmul input is f32, bf16 or u8");
  LAMINA_CHECK(rows >= 0 && cols >= 0, "negative size");
  const auto element = static_cast<size_t>(dtype_bytes(dtype));
  constexpr size_t kAlias = 4096;  // rows this far apart compete for the same cache sets
  size_t row_bytes = round_up(static_cast<size_t>(cols) * element, kLine);
  if (row_bytes % kAlias == 0) row_bytes += kLine;
  MutableActivation out;
  out.dtype = dtype;
  out.data = take_bytes(static_cast<size_t>(rows) * row_bytes);
  out.rows = rows;
  out.cols = cols;
  out.stride = static_cast<int64_t>(row_bytes / element);
  return out;
}

void* Arena::take_bytes(size_t bytes) {
  const size_t room = buffer_.size() - used_;
  LAMINA_CHECK(bytes <= room, "the step needs more memory than the plan gave its arena");
  void* out = buffer_.data() + used_;
  used_ = std::min(buffer_.size(), used_ + round_up(bytes, kLine));
  peak_ = std::max(peak_, used_);
  return out;
}

}  // namespace lamina
