#include <atomic>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/cpu.h"
#include "base/strings.h"
#include "parallel/wait.h"
#include "runner/step_executor.h"

namespace lamina {
namespace {

// Every rank runs the same plans in the same order, so that one ring of plans serves all: a rank counts which of them it has run. A slot
// is used again once all ranks are done with it.
class ThreadExecutor final : public StepExecutor {
 public:
  ThreadExecutor(const Topology& topology, std::vector<RankResources>& ranks, RankFault& fault);
  ~ThreadExecutor() override;

  int depth() const override { return static_cast<int>(slots_.size()); }
  void submit(const StepPlan& plan) override;
  void wait(StepResult& result) override;

 private:
  struct Slot {
    StepPlan plan;
    std::vector<StepResult> parts;  // one a rank
    std::atomic<int> running{0};
  };

  Slot& slot(uint64_t step) { return slots_[step % slots_.size()]; }
  void work(int rank);
  void run(int rank, Slot& slot);
  void await_plan(Spinner& spinner, uint32_t seen);

  const Topology topology_;
  std::vector<RankResources>& ranks_;
  RankFault& fault_;
  WaitRules rules_;
  std::vector<Slot> slots_;
  uint64_t submitted_ = 0, waited_ = 0;
  Spinner spinner_;
  Signal published_, done_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

constexpr auto kForever = std::chrono::hours(24 * 365);

/// Takes as much memory as the original has in reserve, so that the copy grows no more often than it.
void copy(const StepPlan& from, StepPlan& to) {
  to.entries.reserve(from.entries.capacity());
  to.tokens.reserve(from.tokens.capacity());
  to.pages.reserve(from.pages.capacity());
  to = from;
}

ThreadExecutor::ThreadExecutor(const Topology& topology, std::vector<RankResources>& ranks, RankFault& fault)
    : topology_(topology), ranks_(ranks), fault_(fault), slots_(static_cast<size_t>(topology.pp_size)) {
  LAMINA_CHECK(std::ssize(ranks) == topology.world_size(), "one runner a rank");
  int threads = 0;
  for (const RankResources& rank : ranks) threads += rank.team->size();
  rules_ = {.fault = &fault, .deadline = kForever, .spins = threads <= usable_cpus()};
  for (Slot& slot : slots_) slot.parts.resize(ranks.size());
  threads_.reserve(ranks.size() - 1);
  for (int rank = 1; rank < topology.world_size(); ++rank) {
    try {
      threads_.emplace_back([this, rank] { work(rank); });
    } catch (const std::system_error& refused) {
      fault.raise(cat("no thread for rank ", rank, ": ", refused.what()));
      return;
    }
  }
}

ThreadExecutor::~ThreadExecutor() {
  StepResult unwanted;
  while (waited_ < submitted_) wait(unwanted);
  stopping_.store(true);
  published_.advance();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadExecutor::submit(const StepPlan& plan) {
  LAMINA_CHECK(submitted_ - waited_ < slots_.size(), "more plans in flight than the executor takes");
  Slot& next = slot(submitted_++);
  if (fault_.raised()) return;  // ranks that the fault has not reached yet may still read the slot
  copy(plan, next.plan);
  next.running.store(topology_.world_size());
  published_.advance();
  run(0, next);
}

void ThreadExecutor::wait(StepResult& result) {
  LAMINA_CHECK(waited_ < submitted_, "no plan is in flight");
  Slot& oldest = slot(waited_++);
  wait_for(done_, spinner_, rules_, [&] { return oldest.running.load() == 0; });
  if (fault_.raised()) {
    result.outputs.clear();
    result.fault = fault_.message();
    return;
  }
  std::swap(result, oldest.parts[static_cast<size_t>(topology_.leader())]);
  for (int rank = topology_.leader() + 1; rank < topology_.world_size(); ++rank) {
    if (rank_reports(topology_, rank)) merge(result, std::move(oldest.parts[static_cast<size_t>(rank)]));
  }
}

void ThreadExecutor::work(int rank) {
  const PlacedThread placed(ranks_[static_cast<size_t>(rank)].team->place());
  Spinner spinner;
  uint32_t seen = 0;
  for (uint64_t step = 0;; ++step, ++seen) {
    await_plan(spinner, seen);
    if (stopping_.load()) return;
    run(rank, slot(step));
  }
}

void ThreadExecutor::await_plan(Spinner& spinner, uint32_t seen) {
  const auto there = [&] { return published_.value() != seen; };
  if (rules_.spins && spinner.wait(there)) return;
  while (!there()) published_.park_while(seen, kForever);
}

void ThreadExecutor::run(int rank, Slot& slot) {
  const auto r = static_cast<size_t>(rank);
  if (!fault_.raised()) ranks_[r].runner->run(slot.plan, slot.parts[r]);
  if (slot.running.fetch_sub(1) == 1) done_.advance();
}

}  // namespace

std::unique_ptr<StepExecutor> make_thread_executor(const Topology& topology, std::vector<RankResources>& ranks, RankFault& fault) {
  return std::make_unique<ThreadExecutor>(topology, ranks, fault);
}

}  // namespace lamina
