#pragma once
// A runner without a model: the next token is a hash of all K/V the request reads through its page table, of its seed and of its output
// position. A lost, doubled, stale or foreign entry changes the tokens, so a request's output tells whether it was computed as if alone.

#include <cstddef>
#include <cstdint>
#include <deque>
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

  /// Takes a plan, as bytes like a rank of another process, after checking it against the contracts of step.h and against the plans in
  /// flight (with EXPECTs).
  void begin(const StepPlan& plan);
  /// Computes the oldest plan in flight. all_logits rows have one column.
  void finish(StepResult& result);

  /// Plans begun and not finished.
  int in_flight() const { return static_cast<int>(plans_.size()); }
  const StepPlan& oldest() const { return plans_.front(); }
  int64_t rebound() const { return rebound_; }
  int64_t mixed_steps() const { return mixed_steps_; }
  int64_t page_copies() const { return page_copies_; }
  int64_t recomputed_tokens() const { return recomputed_tokens_; }

 private:
  struct State {
    uint64_t seed = 0;
    std::vector<TokenId> tokens;  // what the plans told so far
    int64_t outputs = 0;
    int64_t computed = 0;  // longest prefix so far
    int dp_rank = -1;
    bool in_flight = false;
  };
  /// How many entries and copies of the plans in flight read and write a page.
  struct PageUse {
    int readers = 0, writers = 0;
  };
  void check_layout(const StepPlan& plan);
  void check_history(const StepPlan& plan, const StepEntry& entry);
  /// Counts (by = 1) or forgets (by = -1) what the plan does to pages.
  void count_uses(const StepPlan& plan, int by);
  void check_uses(const StepPlan& plan);
  PageUse& use(int dp_rank, PageId page);
  uint64_t& slot(int dp_rank, PageId page, int64_t offset);
  void copy_pages(const StepPlan& plan);
  StepOutput compute(const StepPlan& plan, const StepEntry& entry);

  SchedulerConfig config_;
  int vocab_;
  std::vector<uint64_t> slots_;  // [dp_ranks, pages, page_size]
  std::vector<PageUse> uses_;    // [dp_ranks, pages]
  std::deque<StepPlan> plans_;
  std::vector<StepPlan> spare_;  // finished ones, for their memory
  std::vector<std::byte> bytes_;
  std::unordered_map<RequestId, State> states_;
  int64_t mixed_steps_ = 0, recomputed_tokens_ = 0, page_copies_ = 0, rebound_ = 0;
};

}  // namespace lamina::testing
