#pragma once
// What ranks of one group say to each other. Sums follow rule 5 of the numeric contract: ((p0 + p1) + p2) ..., in f32, on every rank,
// whether ranks are threads or processes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/rank_fault.h"
#include "tensor/view.h"

namespace lamina {

/// A run of rows.
struct RowRange {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t end() const { return begin + count; }
};

/// Rank `rank`'s share of `rows` rows over `size` ranks: contiguous, in rank order, sizes differ by at most one row; may be empty.
RowRange row_share(int64_t rows, int size, int rank);

/// Every call is collective unless it says otherwise: all ranks of the group make it, with views of one shape, and it returns when the
/// rank's own view is done. A fault (a rank that is gone, a deadline that passed) makes every call of every group of this rank return at
/// once with undefined values: whoever ran the step looks at RankFault and throws its result away.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;

  /// In place; every rank ends with the same bits.
  virtual void all_reduce_sum(F32View values) = 0;
  /// In place element-wise maximum (row maxima of activation quantisation); a NaN of any rank is the maximum.
  virtual void all_reduce_max(F32View values) = 0;
  /// Afterwards rank r's own run of rows (the sums of `counts` before it, counts[r] long) holds the sum over ranks; its other rows are
  /// undefined. `counts` [size] add up to values.rows; some may be 0.
  virtual void reduce_scatter_rows(F32View values, std::span<const int64_t> counts) = 0;
  /// In place: before, rank r's run of rows of `all` is valid, afterwards every row. Rows are those of a matmul input of any dtype.
  virtual void all_gather_rows(const MutableActivation& all, std::span<const int64_t> counts) = 0;
  /// out[rows, local.cols * size]: the ranks' columns side by side in rank order. `out` must not overlap any rank's `local`.
  virtual void all_gather_columns(ConstF32View local, F32View out) = 0;
  /// As all_gather_columns, but only `root` gets them; `out` of other ranks is not read.
  virtual void gather_columns(ConstF32View local, F32View out, int root) = 0;
  /// `bytes` of `root` to all.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void barrier() = 0;

  /// Point to point, in order between two ranks; sizes agree. send may return before the peer has received.
  virtual void send(std::span<const std::byte> bytes, int to) = 0;
  virtual void receive(std::span<std::byte> bytes, int from) = 0;

  /// Ranks that share memory: publishes `mine` and returns every rank's pointer once all have published; they stay readable until the
  /// next barrier() of this group, which each rank must call. Empty (and no communication) when peers cannot be read in place, or after
  /// a fault.
  virtual std::span<const void* const> publish(const void* mine) = 0;
  virtual bool shares_memory() const = 0;

  /// Bytes that this rank got from others so far (for thread ranks: read from their memory by a collective). Over all ranks a sum of
  /// n bytes costs 2 (P - 1) n as all-reduce, (P - 1) n as reduce-scatter; a gather of n bytes in all costs (P - 1) n, to one root
  /// n (P - 1) / P.
  virtual uint64_t bytes_received() const = 0;
  /// Counts bytes that the caller read from peers itself after publish().
  virtual void count_received(uint64_t bytes) = 0;
};

/// A group of one.
class SelfCommunicator final : public Communicator {
 public:
  int size() const override { return 1; }
  int rank() const override { return 0; }
  void all_reduce_sum(F32View) override {}
  void all_reduce_max(F32View) override {}
  void reduce_scatter_rows(F32View, std::span<const int64_t>) override {}
  void all_gather_rows(const MutableActivation&, std::span<const int64_t>) override {}
  void all_gather_columns(ConstF32View local, F32View out) override;
  void gather_columns(ConstF32View local, F32View out, int root) override;
  void broadcast(std::span<std::byte>, int) override {}
  void barrier() override {}
  void send(std::span<const std::byte>, int) override;  // a CHECK
  void receive(std::span<std::byte>, int) override;     // a CHECK
  std::span<const void* const> publish(const void* mine) override;
  bool shares_memory() const override { return true; }
  uint64_t bytes_received() const override { return 0; }
  void count_received(uint64_t) override {}

 private:
  const void* published_ = nullptr;
};

/// Communicators of `size` >= 1 ranks that are threads of this process; each is used by one thread. They wait by spinning briefly (never
/// when the threads of the process outnumber the CPUs), then by parking. `fault` outlives them.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size, RankFault& fault, const CommunicatorOptions& options = {});

}  // namespace lamina
