// Decode steps, and their way to the other ranks and back, allocate nothing after warm-up; what damaged bytes can make the codec take is
// bounded by their size.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <new>

#include "scheduler/scheduler.h"
#include "scheduler/step_codec.h"

namespace {
std::atomic<int64_t> allocations{0};
std::atomic<size_t> largest{0};
}  // namespace

// Not inlined: gcc then sees malloc here and free there and warns of a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  largest = std::max(largest.load(), size);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace lamina {
namespace {

/// An engine without a model: every plan and result goes through bytes; every token is 7.
class Loop {
 public:
  explicit Loop(const SchedulerConfig& config) : scheduler_(config), plans_(static_cast<size_t>(config.plans_in_flight)) {
    for (StepPlan& plan : plans_) plan.pages.reserve(1000);  // page tables grow from step to step
    bytes_.reserve(10000);
  }

  Scheduler& scheduler() { return scheduler_; }

  /// Begins as many plans as there may be, then completes the oldest.
  void turn() {
    while (out_ < plans_.size()) {
      scheduler_.next_step(next_);
      if (next_.empty()) break;
      encode(next_, bytes_);
      ASSERT_TRUE(decode(bytes_, plans_[(first_ + out_) % plans_.size()]).ok());
      ++out_;
    }
    const StepPlan& plan = plans_[first_];
    first_ = (first_ + 1) % plans_.size(), --out_;
    sent_.step = plan.step;
    sent_.outputs.resize(plan.entries.size());
    for (size_t i = 0; i < plan.entries.size(); ++i) sent_.outputs[i].request = plan.entries[i].request, sent_.outputs[i].token = 7;
    encode(sent_, bytes_);
    ASSERT_TRUE(decode(bytes_, result_).ok());
    scheduler_.complete(result_, events_);
  }

 private:
  Scheduler scheduler_;
  std::vector<StepPlan> plans_;
  size_t first_ = 0, out_ = 0;
  StepPlan next_;
  StepResult sent_, result_;
  std::vector<std::byte> bytes_;
  std::vector<RequestEvent> events_;
};

int64_t decode_allocations(int dp_ranks, int plans, int waiting) {
  SchedulerConfig config;
  config.kv = {400, 16};
  config.max_running_requests = 16;
  config.dp_ranks = dp_ranks;
  config.plans_in_flight = plans;
  Loop loop(config);
  for (int id = 1; id <= 16 + waiting; ++id) {
    SchedulerRequest request;
    request.id = RequestId(id);
    request.prompt.assign(static_cast<size_t>(3 + id), id);
    request.sampling.max_new_tokens = 150;
    EXPECT_TRUE(loop.scheduler().submit(std::move(request)).ok());
  }
  for (int i = 0; i < 40; ++i) loop.turn();
  EXPECT_EQ(loop.scheduler().running(), 16);
  const int64_t before = allocations;
  for (int i = 0; i < 80; ++i) loop.turn();
  return allocations - before;
}

TEST(SchedulerAllocation, DecodeStepsAllocateNothingAfterWarmUp) {
  for (const int dp_ranks : {1, 2}) {
    for (const int plans : {1, 3}) {
      for (const int waiting : {0, 2})
        EXPECT_EQ(decode_allocations(dp_ranks, plans, waiting), 0) << dp_ranks << ' ' << plans << ' ' << waiting;
    }
  }
}

TEST(SchedulerAllocation, LyingLengthsTakeNoMemory) {
  StepResult result;
  result.outputs.resize(20);
  for (StepOutput& output : result.outputs) output.prompt_logprobs.resize(2), output.captured.resize(2);
  std::vector<std::byte> good;
  encode(result, good);
  for (size_t at = 0; at + 8 <= good.size(); ++at) {
    std::vector<std::byte> bytes = good;
    bytes[at + 7] = std::byte{0};
    for (size_t i = 0; i < 7; ++i) bytes[at + i] = std::byte{0xFF};
    StepResult back;
    largest = 0;
    (void)decode(bytes, back);
    ASSERT_LE(largest.load(), 16 * bytes.size());
  }
}

}  // namespace
}  // namespace lamina
