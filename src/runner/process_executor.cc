#include <thread>

#include "base/check.h"
#include "base/spinner.h"
#include "base/strings.h"
#include "runner/step_executor.h"
#include "scheduler/step_codec.h"

namespace lamina {
namespace {

class ProcessExecutor final : public StepExecutor {
 public:
  ProcessExecutor(const Topology& topology, RankResources& rank, ProcessWorld& world, RankFault& fault, std::chrono::milliseconds deadline)
      : topology_(topology),
        runner_(*rank.runner),
        world_(world),
        fault_(fault),
        deadline_(deadline),
        own_(static_cast<size_t>(topology.pp_size)) {}

  ~ProcessExecutor() override {
    StepResult unwanted;
    while (waited_ < submitted_) wait(unwanted);
    if (!fault_.raised()) world_.finish();
  }

  int depth() const override { return topology_.pp_size; }

  void submit(const StepPlan& plan) override {
    LAMINA_CHECK(submitted_ - waited_ < own_.size(), "more plans in flight than the executor takes");
    StepResult& own = own_[submitted_++ % own_.size()];
    if (fault_.raised()) return;
    encode(plan, bytes_);
    world_.send_plan(bytes_);
    runner_.run(plan, own);
  }

  void wait(StepResult& result) override {
    LAMINA_CHECK(waited_ < submitted_, "no plan is in flight");
    std::swap(result, own_[waited_++ % own_.size()]);
    for (int rank = 1; rank < topology_.world_size() && !fault_.raised(); ++rank) {
      if (rank_reports(topology_, rank)) add_part(rank, result);
    }
    if (!fault_.raised()) return;
    result.outputs.clear();
    result.fault = fault_.message();
  }

 private:
  /// A rank's results come in the order of the plans.
  void add_part(int rank, StepResult& result) {
    const auto over = [&] { return fault_.raised() || world_.try_receive_result(rank, bytes_); };
    if (!spinner_.wait(over)) {
      const auto last = std::chrono::steady_clock::now() + deadline_;
      while (!over()) {
        if (std::chrono::steady_clock::now() > last) {
          return fault_.raise(cat("rank ", rank, " sent no result of step ", result.step, " within ", deadline_.count(), " ms"));
        }
        std::this_thread::sleep_for(kPoll);
      }
    }
    if (fault_.raised()) return;
    const Status read = decode(bytes_, part_);
    if (!read.ok()) return fault_.raise(cat("rank ", rank, " sent a result that cannot be read: ", read.error().message));
    if (part_.step != result.step || part_.outputs.size() != result.outputs.size()) {
      return fault_.raise(cat("rank ", rank, " sent the result of step ", part_.step, " instead of step ", result.step));
    }
    merge(result, std::move(part_));
  }

  static constexpr auto kPoll = std::chrono::microseconds(30);  // MPI has no wait that a fault could end
  const Topology topology_;
  ModelRunner& runner_;
  ProcessWorld& world_;
  RankFault& fault_;
  const std::chrono::milliseconds deadline_;
  std::vector<StepResult> own_;  // of the plans in flight
  uint64_t submitted_ = 0, waited_ = 0;
  Spinner spinner_;
  std::vector<std::byte> bytes_;
  StepResult part_;
};

}  // namespace

std::unique_ptr<StepExecutor> make_process_executor(const Topology& topology, RankResources& rank, ProcessWorld& world, RankFault& fault,
                                                    std::chrono::milliseconds deadline) {
  return std::make_unique<ProcessExecutor>(topology, rank, world, fault, deadline);
}

Status run_process_worker(RankResources& rank, ProcessWorld& world, RankFault& fault) {
  std::vector<std::byte> bytes;
  StepPlan plan;
  StepResult result;
  while (!fault.raised() && world.receive_plan(bytes)) {
    if (const Status read = decode(bytes, plan); !read.ok()) {
      fault.raise(cat("rank ", world.rank(), " got a plan that cannot be read: ", read.error().message));
      break;
    }
    rank.runner->run(plan, result);
    if (fault.raised() || !rank.runner->reports()) continue;
    encode(result, bytes);
    world.send_result(bytes);
  }
  if (fault.raised()) return error(fault.message());
  world.finish();
  return {};
}

}  // namespace lamina
