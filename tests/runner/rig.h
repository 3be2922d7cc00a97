#pragma once
// Scheduler and runner without threads: a deterministic engine core for property tests.

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/memory.h"
#include "runner/model_runner.h"
#include "scheduler/scheduler.h"

namespace lamina::testing {

struct RigOptions {
  std::string model;  // folder name below tests/golden/models
  std::string kv_cache_dtype = "auto";
  std::string dtype = "auto";
  int threads = 1;
  int page_size = 16;
  int64_t max_total_tokens = 1024;
  int chunked_prefill_size = 64;
  int max_running_requests = 16;
  int mixed_prefill_size = 0;
  bool prefix_cache = true;
  SchedulePolicy policy = SchedulePolicy::kFcfs;
  double new_token_ratio = 0.3;
  /// Replaces the attention backend (a planted fault).
  std::function<std::unique_ptr<AttentionBackend>()> backend;
};

/// What one request got.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs, prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  int64_t cached_tokens = 0;

  bool same(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && prompt_logprobs == other.prompt_logprobs && finish == other.finish;
  }
};

/// A model in memory with its scheduler.
class Rig {
 public:
  explicit Rig(const RigOptions& options);

  Scheduler& scheduler() { return *scheduler_; }
  const ModelConfig& config() const { return config_; }
  const StepPlan& plan() const { return plan_; }
  Answer& answer(RequestId id) { return answers_[id]; }

  /// Runs one step; `change` may spoil the plan first. False when there was nothing to do.
  bool step(const std::function<void(StepPlan&)>& change = {});
  /// Submits and runs to the end.
  Answer alone(SchedulerRequest request);

 private:
  ModelConfig config_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<Scheduler> scheduler_;
  StepPlan plan_;
  StepResult result_;
  std::vector<RequestEvent> events_;
  std::unordered_map<RequestId, Answer> answers_;
};

}  // namespace lamina::testing
