#include "base/thread_team.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/crowding.h"
#include "base/spinner.h"

namespace lamina {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kCacheLine = 64;

Clock::duration cpu_time(std::thread& thread) {
  clockid_t clock{};
  timespec time{};
  if (pthread_getcpuclockid(thread.native_handle(), &clock) != 0 || clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

// One fork: the caller writes job and context, sets `pending`, then bumps `epoch`, which publishes both. One join: each worker lowers
// `pending`; the caller waits for 0. A worker therefore never misses an epoch. Both words are read-modify-written with sequential
// consistency, because a waiter registers and re-reads them in that order before it sleeps.
struct ThreadTeam::State {
  explicit State(int threads) : crowding(threads) {}

  alignas(kCacheLine) std::atomic<uint32_t> epoch{0};
  Job job = nullptr;  // null: the team ends
  void* context = nullptr;
  alignas(kCacheLine) std::atomic<int32_t> pending{0};
  alignas(kCacheLine) bool spins = false;
  Spinner caller;
  Crowding crowding;
  ThreadPlace place;
  std::vector<std::thread> workers;

  void publish(Job next_job, void* next_context) {
    job = next_job;
    context = next_context;
    pending.store(static_cast<int32_t>(workers.size()));
    epoch.fetch_add(1);
    epoch.notify_all();
  }

  void work(int thread) {
    const PlacedThread placed(place);
    Spinner spinner;
    for (uint32_t seen = 0;; ++seen) {
      if (!spins || !spinner.wait([&] { return epoch.load(std::memory_order_acquire) != seen; })) epoch.wait(seen);
      if (job == nullptr) return;
      job(context, thread);
      if (pending.fetch_sub(1) == 1) pending.notify_one();
    }
  }

  void join() {
    if (!spins) return park();
    if (caller.wait([&] { return pending.load(std::memory_order_acquire) == 0; })) return;
    const Clock::time_point begin = Clock::now();
    const Clock::duration used = workers_time();
    park();
    const Clock::time_point end = Clock::now();
    if (Crowding::is_crowded(end - begin, workers_time() - used)) crowding.crowded(end, end - begin);
  }

  void park() {
    while (const int32_t left = pending.load()) pending.wait(left);
  }

  Clock::duration workers_time() {
    Clock::duration sum{};
    for (std::thread& worker : workers) sum += cpu_time(worker);
    return sum;
  }
};

ThreadTeam::ThreadTeam(int threads, int cpus, ThreadPlace place) : state_(std::make_unique<State>(threads)) {
  LAMINA_CHECK(threads >= 1, "a team has at least one thread");
  state_->place = std::move(place);
  state_->spins = threads <= cpus;
  state_->workers.reserve(static_cast<size_t>(threads) - 1);
  for (int thread = 1; thread < threads; ++thread) {
    try {
      state_->workers.emplace_back([state = state_.get(), thread] { state->work(thread); });
    } catch (const std::system_error&) {
      break;
    }
  }
}

ThreadTeam::~ThreadTeam() {
  state_->publish(nullptr, nullptr);
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadTeam::size() const { return static_cast<int>(state_->workers.size()) + 1; }
const ThreadPlace& ThreadTeam::place() const { return state_->place; }

void ThreadTeam::run_raw(Job job, void* context) {
  if (state_->workers.empty() || state_->crowding.alone(Clock::now())) {
    for (int thread = 0; thread < size(); ++thread) job(context, thread);
    return;
  }
  state_->publish(job, context);
  job(context, 0);
  state_->join();
}

void ThreadTeam::parallel_raw(int64_t n, int64_t grain, RangeJob job, void* context) {
  LAMINA_CHECK(grain >= 1, "a chunk has at least one item");
  if (n <= 0) return;
  const int64_t grains = (n - 1) / grain + 1;
  const int64_t grains_a_chunk = std::max<int64_t>(1, grains / (4 * size()));
  if (size() == 1 || grains == 1) {
    job(context, 0, n, 0);
    return;
  }
  const int64_t chunk = grains_a_chunk * grain;
  const int64_t chunks = (n - 1) / chunk + 1;
  alignas(kCacheLine) std::atomic<int64_t> next{0};
  run([&](int thread) {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) {
      job(context, i * chunk, std::min(n, (i + 1) * chunk), thread);
    }
  });
}

}  // namespace lamina
