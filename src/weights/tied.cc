#include "weights/tied.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/strings.h"

namespace lamina {

namespace {

bool equal_bytes(const Checkpoint& checkpoint, const TensorInfo& a, const TensorInfo& b) {
  constexpr uint64_t kBlock = uint64_t{4} << 20;
  const std::span<const uint8_t> left = checkpoint.data(a);
  const std::span<const uint8_t> right = checkpoint.data(b);
  for (uint64_t at = 0; at < left.size(); at += kBlock) {
    const uint64_t count = std::min<uint64_t>(kBlock, left.size() - at);
    const bool same = std::memcmp(left.data() + at, right.data() + at, count) == 0;
    checkpoint.file(a.file).drop(a.begin + at, count);
    checkpoint.file(b.file).drop(b.begin + at, count);
    if (!same) return false;
  }
  return true;
}

}  // namespace

bool warn_if_tied_head_differs(const Checkpoint& checkpoint, std::string_view head, std::string_view embedding) {
  const TensorInfo* a = checkpoint.find(head);
  const TensorInfo* b = checkpoint.find(embedding);
  if (a == nullptr || b == nullptr) return false;
  if (a->dtype == b->dtype && a->shape == b->shape && equal_bytes(checkpoint, *a, *b)) return false;
  log_warning(cat("the config ties the head to the embedding, but tensor ", head, " differs from ", embedding, ": ", embedding,
                  " is used for both"));
  return true;
}

}  // namespace lamina
