#pragma once
// A group whose ranks are processes.

#include <string>
#include <string_view>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/mpi/wire.h"
#include "parallel/reduce.h"

namespace lamina {

/// Parts are exchanged by messages between pairs and added here in rank order, since MPI's own reductions promise no order.
class MpiCommunicator final : public Communicator {
 public:
  /// `members`: world ranks in order, `index` this one's place. `tag` and `tag + 1` are this group's alone. `wire` outlives it.
  MpiCommunicator(Wire& wire, std::string_view name, std::vector<int> members, int index, int tag);

  int size() const override { return static_cast<int>(members_.size()); }
  int rank() const override { return rank_; }
  bool shares_memory() const override { return false; }
  uint64_t bytes_received() const override { return received_; }
  void count_received(uint64_t bytes) override { received_ += bytes; }
  std::span<const void* const> publish(const void*) override { return {}; }

  void all_reduce_sum(F32View values) override { all_reduce(values, Reduction::kSum, "all_reduce_sum"); }
  void all_reduce_max(F32View values) override { all_reduce(values, Reduction::kMax, "all_reduce_max"); }
  void reduce_scatter_rows(F32View values, std::span<const int64_t> counts) override;
  void all_gather_rows(const MutableActivation& all, std::span<const int64_t> counts) override;
  void all_gather_columns(ConstF32View local, F32View out) override;
  void gather_columns(ConstF32View local, F32View out, int root) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void barrier() override;
  void send(std::span<const std::byte> bytes, int to) override;
  void receive(std::span<std::byte> bytes, int from) override;

 private:
  void all_reduce(F32View values, Reduction reduction, std::string_view operation);
  void exchange_all(float* values, int64_t count, Reduction reduction, std::string_view operation);
  void exchange_shares(float* values, int64_t count, Reduction reduction, std::string_view operation);
  void gather(ConstF32View local, F32View out, int only_root, std::string_view operation);

  template <class F>
  void for_each_peer(F f) const {
    // Each begins with the rank after it, so that not all talk to rank 0 first.
    for (int i = 1; i < size(); ++i) f((rank_ + i) % size());
  }
  /// `peer` is a rank of the group.
  void post_send(std::span<const std::byte> bytes, int peer) { wire_.post_send(bytes, members_[static_cast<size_t>(peer)], tag_); }
  void post_receive(std::span<std::byte> bytes, int peer);
  bool complete(std::string_view operation) { return wire_.complete(operation, name_); }

  /// One part a rank: this rank's own and those received.
  std::span<const float* const> parts(const float* own, int64_t count);
  float* received_part(int peer, int64_t count) { return scratch_.data() + peer * count; }
  void reserve_parts(int64_t count);

  Wire& wire_;
  const std::string name_;
  const std::vector<int> members_;
  const int rank_, tag_;
  std::vector<float> scratch_;     // parts of peers
  std::vector<std::byte> packed_;  // rows of views that are not contiguous
  std::vector<const float*> pointers_;
  uint64_t received_ = 0;
};

}  // namespace lamina
