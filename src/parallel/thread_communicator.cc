#include "parallel/thread_communicator.h"

#include <cstring>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "base/check.h"
#include "base/strings.h"
#include "parallel/mailbox.h"
#include "parallel/ragged.h"
#include "parallel/reduce.h"

namespace lamina {
namespace {

/// A rank's place in its group: what it lays open for the others during a call, and how many meetings it came to.
struct alignas(64) Seat {
  MutableActivation view;
  std::atomic<uint32_t> meetings{0};
};

/// What the ranks of one group share.
struct ThreadGroup {
  ThreadGroup(std::string_view group_name, const std::vector<int>& world_ranks, const WaitRules& wait_rules)
      : name(group_name), members(world_ranks), rules(wait_rules), seats(world_ranks.size()), pointers(world_ranks.size()) {}
  uint32_t size() const { return static_cast<uint32_t>(members.size()); }

  const std::string name;
  const std::vector<int> members;
  const WaitRules rules;
  std::vector<Seat> seats;
  std::vector<const void*> pointers;
  std::mutex mutex;                                                 // guards mailboxes
  std::unordered_map<int64_t, std::unique_ptr<Mailbox>> mailboxes;  // [from * size + to], of pairs that have written
  alignas(64) std::atomic<uint32_t> arrived{0};
  Signal meetings;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank) : group_(std::move(group)), rank_(rank), parts_(group_->size()) {}

  int size() const override { return static_cast<int>(group_->size()); }
  int rank() const override { return rank_; }
  bool shares_memory() const override { return true; }
  uint64_t bytes_received() const override { return received_; }
  void count_received(uint64_t bytes) override { received_ += bytes; }

  void all_reduce_sum(F32View values) override { all_reduce(values, Reduction::kSum, "all_reduce_sum"); }
  void all_reduce_max(F32View values) override { all_reduce(values, Reduction::kMax, "all_reduce_max"); }
  void reduce_scatter_rows(F32View values, std::span<const int64_t> counts) override;
  void all_gather_rows(const MutableActivation& all, std::span<const int64_t> counts) override;
  void all_gather_columns(ConstF32View local, F32View out) override { gather(local, out, true, "all_gather_columns"); }
  void gather_columns(ConstF32View local, F32View out, int root) override { gather(local, out, root == rank_, "gather_columns"); }
  void broadcast(std::span<std::byte> bytes, int root) override;
  void barrier() override { meet("barrier"); }
  void send(std::span<const std::byte> bytes, int to) override;
  void receive(std::span<std::byte> bytes, int from) override;
  std::span<const void* const> publish(const void* mine) override;

 private:
  void all_reduce(F32View values, Reduction reduction, const char* operation);
  void gather(ConstF32View local, F32View out, bool wants, const char* operation);
  std::span<const float* const> parts_at(int64_t row, int64_t column);

  /// Lays `view` open and waits until all have done so. False after a fault: no peer's view may then be looked at.
  bool meet_with(const MutableActivation& view, const char* operation) {
    if (group_->rules.fault->raised()) return false;  // a peer may still be at the view of the call that the fault cut short
    group_->seats[static_cast<size_t>(rank_)].view = view;
    return meet(operation);
  }
  bool meet(const char* operation);
  void raise_late(const char* operation, const std::vector<int>& missing);

  const MutableActivation& view_of(int rank) const { return group_->seats[static_cast<size_t>(rank)].view; }
  F32View f32_of(int rank) const {
    const MutableActivation& v = view_of(rank);
    return {static_cast<float*>(v.data), v.rows, v.cols, v.stride};
  }
  /// Made by whichever of the two ranks comes first; looked up once by each.
  Mailbox& mailbox(int from, int to) {
    std::vector<Mailbox*>& known = from == rank_ ? outgoing_ : incoming_;
    if (known.empty()) known.resize(static_cast<size_t>(size()));
    Mailbox*& box = known[static_cast<size_t>(from == rank_ ? to : from)];
    if (box == nullptr) {
      const std::lock_guard lock(group_->mutex);
      std::unique_ptr<Mailbox>& owned = group_->mailboxes[int64_t{from} * size() + to];
      if (owned == nullptr) owned = std::make_unique<Mailbox>();
      box = owned.get();
    }
    return *box;
  }

  std::shared_ptr<ThreadGroup> group_;  // shared by the communicators of one group
  int rank_;
  std::vector<const float*> parts_;            // [size], for the row at hand
  std::vector<Mailbox*> outgoing_, incoming_;  // by peer; null: not yet used
  Spinner spinner_;
  uint64_t received_ = 0;
};

MutableActivation open_view(F32View view) {
  return {.dtype = DType::kF32, .data = view.data, .rows = view.rows, .cols = view.cols, .stride = view.stride};
}
MutableActivation open_view(ConstF32View view) {
  return {.dtype = DType::kF32, .data = const_cast<float*>(view.data), .rows = view.rows, .cols = view.cols, .stride = view.stride};
}

void copy_rows(const MutableActivation& from, const MutableActivation& to, RowRange rows) {
  const int64_t element = dtype_bytes(to.dtype);
  const bool whole = from.stride == from.cols && to.stride == to.cols;
  const int64_t pieces = whole ? std::min<int64_t>(rows.count, 1) : rows.count;
  const auto bytes = static_cast<size_t>((whole ? rows.count : 1) * to.cols * element);
  for (int64_t r = 0; bytes > 0 && r < pieces; ++r) {
    std::memcpy(static_cast<std::byte*>(to.data) + (rows.begin + r) * to.stride * element,
                static_cast<const std::byte*>(from.data) + (rows.begin + r) * from.stride * element, bytes);
  }
}

bool ThreadCommunicator::meet(const char* operation) {
  ThreadGroup& g = *group_;
  if (g.rules.fault->raised()) return false;
  const uint32_t before = g.meetings.value();  // stays until this rank arrives
  g.seats[static_cast<size_t>(rank_)].meetings.store(before + 1, std::memory_order_relaxed);
  if (g.arrived.fetch_add(1) + 1 == g.size()) {
    g.arrived.store(0, std::memory_order_relaxed);
    g.meetings.advance();
    return true;
  }
  for (;;) {
    const Waited waited = wait_for(g.meetings, spinner_, g.rules, [&] { return g.meetings.value() != before; });
    if (waited != Waited::kLate) return waited == Waited::kDone;
    std::vector<int> missing;
    for (int r = 0; r < size(); ++r) {
      if (g.seats[static_cast<size_t>(r)].meetings.load(std::memory_order_relaxed) != before + 1) missing.push_back(r);
    }
    if (!missing.empty()) raise_late(operation, missing);
  }
}

void ThreadCommunicator::raise_late(const char* operation, const std::vector<int>& missing) {
  std::vector<std::string> names;
  for (const int rank : missing) names.push_back(cat(group_->members[static_cast<size_t>(rank)]));
  group_->rules.fault->raise(cat(names.size() == 1 ? "rank " : "ranks ", join(names, ", "), " did not come to ", operation, " of group \"",
                                 group_->name, "\" within ", group_->rules.deadline.count(), " ms"));
}

/// Where every rank's element `column` of row `row` lies.
std::span<const float* const> ThreadCommunicator::parts_at(int64_t row, int64_t column) {
  for (int r = 0; r < size(); ++r) parts_[static_cast<size_t>(r)] = f32_of(r).row(row) + column;
  return parts_;
}

void ThreadCommunicator::all_reduce(F32View values, Reduction reduction, const char* operation) {
  if (!meet_with(open_view(values), operation)) return;
  bool flat = true;  // then the elements are split whatever the shape, else the columns
  for (int r = 0; r < size(); ++r) {
    const F32View theirs = f32_of(r);
    LAMINA_CHECK(theirs.rows == values.rows && theirs.cols == values.cols, "reduced views differ in shape");
    flat = flat && (theirs.stride == theirs.cols || theirs.rows <= 1);
  }
  constexpr int64_t kLine = 16;  // floats in a cache line
  const int64_t rows = flat ? std::min<int64_t>(values.rows, 1) : values.rows;
  const int64_t cols = flat ? values.rows * values.cols : values.cols;
  const RowRange lines = row_share((cols + kLine - 1) / kLine, size(), rank_);
  const int64_t begin = std::min(cols, lines.begin * kLine), end = std::min(cols, lines.end() * kLine);
  for (int64_t row = 0; row < rows; ++row) {
    combine_in_rank_order(reduction, parts_at(row, begin), end - begin, [&](int64_t at, const float* total, int64_t n) {
      for (int r = 0; r < size(); ++r) std::memcpy(f32_of(r).row(row) + begin + at, total, static_cast<size_t>(n) * sizeof(float));
    });
  }
  // Own part read from every peer, and the rest written by the peers.
  received_ += static_cast<uint64_t>(rows * ((end - begin) * (size() - 1) + cols - (end - begin))) * sizeof(float);
  meet(operation);
}

void ThreadCommunicator::reduce_scatter_rows(F32View values, std::span<const int64_t> counts) {
  check_counts(counts, size(), values.rows);
  constexpr const char* kOperation = "reduce_scatter_rows";
  if (!meet_with(open_view(values), kOperation)) return;
  const RowRange own = run_of(counts, rank_);
  for (int64_t row = own.begin; row < own.end(); ++row) {
    combine_in_rank_order(Reduction::kSum, parts_at(row, 0), values.cols, [&](int64_t at, const float* total, int64_t n) {
      std::memcpy(values.row(row) + at, total, static_cast<size_t>(n) * sizeof(float));
    });
  }
  received_ += static_cast<uint64_t>(own.count * values.cols * (size() - 1)) * sizeof(float);
  meet(kOperation);
}

void ThreadCommunicator::all_gather_rows(const MutableActivation& all, std::span<const int64_t> counts) {
  check_counts(counts, size(), all.rows);
  constexpr const char* kOperation = "all_gather_rows";
  if (!meet_with(all, kOperation)) return;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    const RowRange run = run_of(counts, r);
    const MutableActivation& theirs = view_of(r);
    LAMINA_CHECK(theirs.dtype == all.dtype && theirs.rows == all.rows && theirs.cols == all.cols, "gathered rows differ in shape or dtype");
    copy_rows(theirs, all, run);
    received_ += static_cast<uint64_t>(run.count * all.cols * dtype_bytes(all.dtype));
  }
  meet(kOperation);
}

void ThreadCommunicator::gather(ConstF32View local, F32View out, bool wants, const char* operation) {
  LAMINA_CHECK(!wants || (out.cols == local.cols * size() && out.rows == local.rows), "not the ranks' columns side by side: shape of out");
  if (!meet_with(open_view(local), operation)) return;
  for (int r = 0; wants && r < size(); ++r) {
    const F32View theirs = f32_of(r);
    LAMINA_CHECK(theirs.rows == local.rows && theirs.cols == local.cols, "gathered views differ in shape");
    for (int64_t row = 0; local.cols > 0 && row < local.rows; ++row) {
      std::memcpy(out.row(row) + r * local.cols, theirs.row(row), static_cast<size_t>(local.cols) * sizeof(float));
    }
    if (r != rank_) received_ += static_cast<uint64_t>(local.rows * local.cols) * sizeof(float);
  }
  meet(operation);
}

void ThreadCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  constexpr const char* kOperation = "broadcast";
  const auto length = static_cast<int64_t>(bytes.size());
  if (!meet_with({.dtype = DType::kU8, .data = bytes.data(), .rows = 1, .cols = length, .stride = length}, kOperation)) return;
  if (rank_ != root) {
    LAMINA_CHECK(view_of(root).cols == length, "broadcast of another size than the root's");
    if (!bytes.empty()) std::memcpy(bytes.data(), view_of(root).data, bytes.size());
    received_ += bytes.size();
  }
  meet(kOperation);
}

std::span<const void* const> ThreadCommunicator::publish(const void* mine) {
  if (group_->rules.fault->raised()) return {};
  group_->pointers[static_cast<size_t>(rank_)] = mine;
  if (!meet("publish")) return {};
  return group_->pointers;
}

void ThreadCommunicator::send(std::span<const std::byte> bytes, int to) {
  LAMINA_CHECK(to >= 0 && to < size() && to != rank_, "no such peer");
  if (mailbox(rank_, to).send(bytes, group_->rules) == Waited::kLate) raise_late("receive", {to});
}

void ThreadCommunicator::receive(std::span<std::byte> bytes, int from) {
  LAMINA_CHECK(from >= 0 && from < size() && from != rank_, "no such peer");
  const Waited waited = mailbox(from, rank_).receive(group_->rules, [&](std::span<const std::byte> message) {
    LAMINA_CHECK(message.size() == bytes.size(), "received another number of bytes than the peer sent");
    if (!bytes.empty()) std::memcpy(bytes.data(), message.data(), bytes.size());
  });
  if (waited == Waited::kDone) received_ += bytes.size();
  if (waited == Waited::kLate) raise_late("send", {from});
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(std::string_view name, const std::vector<int>& members, RankFault& fault,
                                                             const CommunicatorOptions& options) {
  const int size = static_cast<int>(members.size());
  LAMINA_CHECK(size >= 1, "a group has at least one rank");
  const bool spins = std::max(options.threads_of_process, size) <= options.cpus;
  const WaitRules rules{.fault = &fault, .deadline = options.deadline, .spins = spins};
  auto group = std::make_shared<ThreadGroup>(name, members, rules);
  std::vector<std::unique_ptr<Communicator>> out;
  for (int r = 0; r < size; ++r) out.push_back(std::make_unique<ThreadCommunicator>(group, r));
  return out;
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size, RankFault& fault, const CommunicatorOptions& options) {
  LAMINA_CHECK(size >= 1, "a group has at least one rank");
  std::vector<int> members(static_cast<size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  return make_thread_group("ranks", members, fault, options);
}

}  // namespace lamina
