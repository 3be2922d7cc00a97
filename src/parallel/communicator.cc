#include "parallel/communicator.h"

#include <algorithm>
#include <barrier>
#include <cstring>

#include "base/check.h"

namespace lamina {

namespace {

void copy_columns(ConstF32View from, F32View to) {
  LAMINA_CHECK(from.rows == to.rows && from.cols == to.cols, "gathered views differ in shape");
  for (int64_t r = 0; r < from.rows; ++r) std::memcpy(to.row(r), from.row(r), static_cast<size_t>(from.cols) * sizeof(float));
}

/// What the ranks of one group share: each rank's view during a call, and the barrier round it.
struct ThreadGroup {
  explicit ThreadGroup(int size) : reduced(static_cast<size_t>(size)), gathered(static_cast<size_t>(size)), meeting(size) {}
  std::vector<F32View> reduced;
  std::vector<ConstF32View> gathered;
  std::barrier<> meeting;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int size() const override { return static_cast<int>(group_->reduced.size()); }
  int rank() const override { return rank_; }

  void all_reduce_sum(F32View values) override {
    reduce(values, [](float a, float b) { return a + b; });
  }
  void all_reduce_max(F32View values) override {
    reduce(values, [](float a, float b) { return std::max(a, b); });
  }

  void all_gather_columns(ConstF32View local, F32View out) override {
    LAMINA_CHECK(out.cols == local.cols * size(), "gathered columns are not the ranks' columns side by side");
    group_->gathered[static_cast<size_t>(rank_)] = local;
    barrier();
    for (int r = 0; r < size(); ++r) copy_columns(group_->gathered[static_cast<size_t>(r)], out.columns(r * local.cols, local.cols));
    barrier();
  }

  void barrier() override { group_->meeting.arrive_and_wait(); }

 private:
  /// Each rank combines its run of columns over all ranks, in rank order, and writes the result to all: equal bits by construction.
  template <class Combine>
  void reduce(F32View values, Combine combine) {
    constexpr int64_t kLine = 16;  // columns in a cache line
    group_->reduced[static_cast<size_t>(rank_)] = values;
    barrier();
    const std::vector<F32View>& all = group_->reduced;
    const int64_t lines = (values.cols + kLine - 1) / kLine;
    const int64_t begin = lines * rank_ / size() * kLine;
    const int64_t end = std::min(values.cols, lines * (rank_ + 1) / size() * kLine);
    for (const F32View& view : all) LAMINA_CHECK(view.rows == values.rows && view.cols == values.cols, "reduced views differ in shape");
    for (int64_t row = 0; row < values.rows; ++row) {
      for (int64_t c = begin; c < end; ++c) {
        float total = all[0].at(row, c);
        for (size_t r = 1; r < all.size(); ++r) total = combine(total, all[r].at(row, c));
        for (const F32View& view : all) view.at(row, c) = total;
      }
    }
    barrier();
  }

  std::shared_ptr<ThreadGroup> group_;  // shared by the communicators of one group
  int rank_;
};

}  // namespace

void SelfCommunicator::all_gather_columns(ConstF32View local, F32View out) { copy_columns(local, out); }

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size) {
  LAMINA_CHECK(size >= 1, "a group has at least one rank");
  auto group = std::make_shared<ThreadGroup>(size);
  std::vector<std::unique_ptr<Communicator>> out;
  for (int r = 0; r < size; ++r) out.push_back(std::make_unique<ThreadCommunicator>(group, r));
  return out;
}

}  // namespace lamina
