#pragma once
// Scheduler and executor driven step by step: a deterministic engine core for property tests.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runner/step_executor.h"
#include "scheduler/scheduler.h"
#include "tests/runner/fake_world.h"

namespace lamina::testing {

struct RigOptions {
  std::string model;  // a folder, or the name of one below tests/golden/models
  std::string kv_cache_dtype = "auto";
  std::string dtype = "auto";
  std::string quantization;
  Topology topology;
  bool processes = false;  // ranks get encoded plans, as processes do
  std::string boundary_plan = "fused";
  std::string boundary_rows = "auto";
  std::string dp_padding = "auto";
  std::vector<int64_t> capture_layers;
  int threads = 1;  // of each rank
  int page_size = 16;
  int64_t max_total_tokens = 1024;
  int chunked_prefill_size = 64;
  int max_running_requests = 16;
  int mixed_prefill_size = 0;
  bool prefix_cache = true;
  SchedulePolicy policy = SchedulePolicy::kFcfs;
  double new_token_ratio = 0.3;
  std::chrono::milliseconds deadline = std::chrono::seconds(60);         // of the ranks' waits for each other
  std::chrono::milliseconds result_deadline = std::chrono::seconds(60);  // of rank 0's wait for the results of other processes
  /// Replaces the attention backend of every rank (a planted fault).
  std::function<std::unique_ptr<AttentionBackend>()> backend;
};

/// What one request got.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs, prompt_logprobs;
  std::vector<float> logits, embedding;
  std::vector<std::vector<float>> captured;
  FinishReason finish = FinishReason::kNone;
  int64_t cached_tokens = 0;

  bool same(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && prompt_logprobs == other.prompt_logprobs && logits == other.logits &&
           embedding == other.embedding && captured == other.captured && finish == other.finish;
  }
};

/// A model in memory on all ranks of its topology, as threads, with its scheduler.
class Rig {
 public:
  explicit Rig(const RigOptions& options);
  ~Rig();

  Scheduler& scheduler() { return *scheduler_; }
  const ModelConfig& config() const { return source_->config; }
  ModelRunner& runner(int rank) { return *ranks_[static_cast<size_t>(rank)].runner; }
  RankFault& fault() { return fault_; }
  StepExecutor& executor() { return *executor_; }
  FakeWorlds& worlds() { return *worlds_; }
  int in_flight() const { return in_flight_; }
  const StepResult& result() const { return result_; }
  Answer& answer(RequestId id) { return answers_[id]; }

  /// Submits plans until as many as the pipeline takes are in flight, then waits for the oldest. Each plan is shown to `see` first, which
  /// may spoil it. False when there was nothing to do, or after a fault.
  bool step(const std::function<void(StepPlan&)>& see = {});
  /// Ends the ranks; what each of the other processes says of its end.
  std::vector<Status> end();
  /// Submits and runs to the end.
  Answer alone(SchedulerRequest request);

 private:
  void start_ranks(const RigOptions& options);
  void start_executor(const RigOptions& options);
  void take(StepOutput& output);

  RankFault fault_;
  std::shared_ptr<const ModelSource> source_;
  std::vector<RankResources> ranks_;
  std::unique_ptr<FakeWorlds> worlds_;
  std::vector<Status> ends_;  // one a worker
  std::vector<std::thread> workers_;
  std::unique_ptr<StepExecutor> executor_;
  std::unique_ptr<Scheduler> scheduler_;
  int in_flight_ = 0;
  StepPlan plan_;
  StepResult result_;
  std::vector<RequestEvent> events_;
  std::unordered_map<RequestId, Answer> answers_;
};

}  // namespace lamina::testing
