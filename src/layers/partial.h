#pragma once
// One rank's addend of a sum over a group. It cannot be read, copied or dropped: only a layer boundary, or the layer's own completion,
// consumes it. Using one as a tensor does not compile; destroying one unconsumed is a CHECK.

#include "parallel/topology.h"
#include "tensor/view.h"

namespace lamina {

class [[nodiscard]] Partial {
 public:
  /// `values` [rows, width] live in the producer's stage memory.
  Partial(F32View values, const ParallelGroup& group) : values_(values), group_(&group) {}
  Partial(Partial&& other) noexcept : values_(other.values_), group_(other.group_) { other.group_ = nullptr; }
  Partial& operator=(Partial&&) = delete;
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  ~Partial() { LAMINA_CHECK(group_ == nullptr, "a partial sum was dropped unreduced"); }

 private:
  friend struct PartialAccess;
  F32View values_;
  const ParallelGroup* group_;  // null once consumed
};

/// The only door to the values; used by boundaries, by layers that own their residual and by RowParallelLinear::complete.
struct PartialAccess {
  struct Owed {
    F32View values;
    const ParallelGroup* group;
  };
  static Owed consume(Partial&& partial) {
    LAMINA_CHECK(partial.group_ != nullptr, "a partial sum was consumed twice");
    const Owed owed{partial.values_, partial.group_};
    partial.group_ = nullptr;
    return owed;
  }
  /// Completes the sum over the group, in place.
  static F32View reduce(Partial&& partial) {
    const Owed owed = consume(std::move(partial));
    if (owed.group->size > 1) owed.group->communicator->all_reduce_sum(owed.values);
    return owed.values;
  }
};

}  // namespace lamina
