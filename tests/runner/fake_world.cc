#include "tests/runner/fake_world.h"

#include <chrono>
#include <optional>

namespace lamina::testing {

using Bytes = std::vector<std::byte>;

struct FakeWorlds::Shared {
  explicit Shared(int ranks, RankFault& rank_fault)
      : fault(rank_fault), plans(static_cast<size_t>(ranks)), results(static_cast<size_t>(ranks)) {}

  RankFault& fault;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<std::optional<Bytes>>> plans;  // to each rank; none: the end
  std::vector<std::deque<Bytes>> results;               // of each rank
  int finished = 0;
  bool mute = false;
};

class FakeWorlds::World final : public ProcessWorld {
 public:
  World(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  int size() const override { return static_cast<int>(shared_.plans.size()); }
  int rank() const override { return rank_; }
  int local_size() const override { return size(); }
  int cpu_sharers() const override { return 1; }
  int cpu_sharer_index() const override { return 0; }
  std::unique_ptr<Communicator> connect(std::string_view, const std::vector<int>&, int) override { return nullptr; }
  int64_t all_min(int64_t value) override { return value; }
  Status all_agree(std::string_view) override { return {}; }

  void send_plan(std::span<const std::byte> bytes) override { to_all(Bytes(bytes.begin(), bytes.end())); }

  bool receive_plan(Bytes& bytes) override {
    std::unique_lock lock(shared_.mutex);
    auto& queue = shared_.plans[static_cast<size_t>(rank_)];
    while (queue.empty()) {
      if (shared_.fault.raised()) return false;
      shared_.changed.wait_for(lock, std::chrono::milliseconds(5));
    }
    if (!queue.front()) return false;
    bytes = std::move(*queue.front());
    queue.pop_front();
    return true;
  }

  void send_result(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(shared_.mutex);
    if (shared_.mute) return;
    shared_.results[static_cast<size_t>(rank_)].emplace_back(bytes.begin(), bytes.end());
  }

  bool try_receive_result(int from, Bytes& bytes) override {
    const std::lock_guard lock(shared_.mutex);
    auto& queue = shared_.results[static_cast<size_t>(from)];
    if (queue.empty()) return false;
    bytes = std::move(queue.front());
    queue.pop_front();
    return true;
  }

  void finish() override {
    if (rank_ == 0) to_all(std::nullopt);
    const std::lock_guard lock(shared_.mutex);
    ++shared_.finished;
  }

 private:
  void to_all(const std::optional<Bytes>& plan) {
    const std::lock_guard lock(shared_.mutex);
    for (size_t r = 1; r < shared_.plans.size(); ++r) shared_.plans[r].push_back(plan);
    shared_.changed.notify_all();
  }

  Shared& shared_;
  const int rank_;
};

FakeWorlds::FakeWorlds(int size, RankFault& fault) : shared_(std::make_unique<Shared>(size, fault)) {
  for (int r = 0; r < size; ++r) worlds_.push_back(std::make_unique<World>(*shared_, r));
}

FakeWorlds::~FakeWorlds() = default;

ProcessWorld& FakeWorlds::world(int rank) { return *worlds_[static_cast<size_t>(rank)]; }

void FakeWorlds::forge_result(int rank, Bytes bytes) {
  const std::lock_guard lock(shared_->mutex);
  shared_->results[static_cast<size_t>(rank)].push_front(std::move(bytes));
}

void FakeWorlds::forge_plan(int rank, Bytes bytes) {
  const std::lock_guard lock(shared_->mutex);
  shared_->plans[static_cast<size_t>(rank)].push_back(std::move(bytes));
  shared_->changed.notify_all();
}

void FakeWorlds::lose_results() {
  const std::lock_guard lock(shared_->mutex);
  shared_->mute = true;
}

bool FakeWorlds::finished() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->finished == static_cast<int>(worlds_.size());
}

}  // namespace lamina::testing
