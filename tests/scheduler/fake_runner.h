#pragma once
// A runner without a model: the next token is a hash of all K/V the request reads through its page table, of its seed and of its output
// position. A lost, doubled, stale or foreign entry changes the tokens, so a request's output tells whether it was computed as if alone.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "scheduler/scheduler.h"

namespace lamina::testing {

/// What one position of a request puts into the pool.
uint64_t kv_value(TokenId token, int64_t position, int64_t rope_length);
/// One more position read by attention.
uint64_t fold(uint64_t state, uint64_t value);
/// The value a logits row has; the row that is sampled from gives `token_of(row, ...)`.
float logits_of(uint64_t state);
TokenId token_of(uint64_t state, uint64_t seed, int64_t output_position, int vocab);

class FakeRunner {
 public:
  FakeRunner(const SchedulerConfig& config, int vocab);

  /// Computes a plan after checking it against the contracts of step.h (with EXPECTs). all_logits rows have one column.
  void run(const StepPlan& plan, StepResult& result);

  int64_t mixed_steps() const { return mixed_steps_; }
  int64_t page_copies() const { return page_copies_; }
  int64_t recomputed_tokens() const { return recomputed_tokens_; }

 private:
  struct State {
    uint64_t seed = 0;
    int64_t outputs = 0;
    int64_t computed = 0;  // longest prefix so far
  };
  void check_plan(const StepPlan& plan);
  void check_written_pages(const StepPlan& plan);
  void copy_pages(const StepPlan& plan);
  StepOutput compute(const StepPlan& plan, const StepEntry& entry);

  SchedulerConfig config_;
  int vocab_;
  std::vector<uint64_t> slots_;
  std::unordered_map<RequestId, State> states_;
  int64_t mixed_steps_ = 0, recomputed_tokens_ = 0, page_copies_ = 0;
};

}  // namespace lamina::testing
