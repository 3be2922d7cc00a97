#pragma once
// What ranks of one group say to each other. Sums follow rule 5 of the numeric contract: ((p0 + p1) + p2) ..., in f32, on every rank.

#include <memory>
#include <vector>

#include "tensor/view.h"

namespace lamina {

/// Every call is collective: all ranks of the group make it, with views of one shape, and it returns when the rank's own view is done.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  /// In place; every rank ends with the same bits.
  virtual void all_reduce_sum(F32View values) = 0;
  /// out[rows, local.cols * size]: the ranks' columns side by side in rank order. `out` must not overlap any rank's `local`.
  virtual void all_gather_columns(ConstF32View local, F32View out) = 0;
  /// In place element-wise maximum (row maxima of activation quantisation); values are not NaN.
  virtual void all_reduce_max(F32View values) = 0;
  virtual void barrier() = 0;
};

/// A group of one.
class SelfCommunicator final : public Communicator {
 public:
  int size() const override { return 1; }
  int rank() const override { return 0; }
  void all_reduce_sum(F32View) override {}
  void all_gather_columns(ConstF32View local, F32View out) override;
  void all_reduce_max(F32View) override {}
  void barrier() override {}
};

/// Communicators of `size` >= 1 ranks that are threads of this process; each is used by one thread.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size);

}  // namespace lamina
