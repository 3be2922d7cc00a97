#pragma once
// One rank: StepPlan -> ForwardBatch -> model -> logits -> sampler -> StepResult. Owns the step's memory, the KV store and the backend.

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "layers/sampler.h"
#include "plan/memory.h"
#include "plan/model_plan.h"
#include "runner/step_batch.h"
#include "scheduler/step.h"

namespace lamina {

/// Whether `rank` samples: the first of the last stage's, or with --enable-dp-lm-head the first of each attention-DP rank's.
bool rank_samples(const Topology& topology, int rank);
/// Whether `rank` has results to report: those that sample, and of each attention-DP rank of the last stage the first (pooled embeddings,
/// captured states).
bool rank_reports(const Topology& topology, int rank);

class ModelRunner {
 public:
  /// Takes over a plan whose weights are loaded; reserves step memory and KV store (committed on first use). `team` outlives the runner.
  /// `end_tokens`: the model's EOS ids.
  static Result<std::unique_ptr<ModelRunner>> create(ModelPlan plan, const MemoryPlan& memory, ThreadTeam& team,
                                                     std::vector<TokenId> end_tokens);

  /// Executes a plan together with the other ranks, which run the same one; `result` is overwritten: an output for each entry, which
  /// holds only what this rank reports. Plans come in order, from one thread. After a fault of the ranks the outputs are void.
  void run(const StepPlan& plan, StepResult& result);

  /// Receives the named intermediates of every later step; nullptr for none.
  void set_taps(TapSink* taps) { taps_ = taps; }
  const CausalLM& model() const { return *plan_.built.model; }
  /// rank_reports() of this rank.
  bool reports() const { return reports_; }

 private:
  /// What the head and the sampler need to know of a live request.
  struct Live {
    SamplingParams sampling;
    std::vector<TokenId> tokens;  // prompt and outputs; empty on a rank that does not sample
    int64_t prompt_tokens = 0;
    int candidates = 0;  // CausalLM::logits
  };

  ModelRunner(ModelPlan plan, ThreadTeam& team, KvStore kv, StepMemory memory, const MemoryPlan& sizes, std::vector<TokenId> end_tokens);
  /// Learns what the plan says of requests: admissions, outputs that come back as tokens, releases.
  void follow(const StepPlan& plan);
  void take_logits(ForwardContext& ctx, const StepPlan& plan, StepResult& result);
  /// The most that any logits row of [first, first + count) needs; `selected` begins with the first of them.
  int candidates(const StepPlan& plan, std::span<const SelectedRows> selected, int64_t end) const;
  /// Row `index` of an entry's logits rows.
  void take_row(const StepEntry& entry, std::span<const float> row, int64_t index, StepOutput& output);
  void take_prompt_logprob(const Live& live, std::span<const float> row, int64_t position, StepOutput& output);
  void sample_token(const Live& live, std::span<const float> row, StepOutput& output);
  void take_pooled(const StepPlan& plan, StepResult& result) const;
  void take_captured(const StepPlan& plan, StepResult& result) const;

  ModelPlan plan_;
  const bool last_stage_, samples_, reports_;
  Compute compute_;
  KvStore kv_;
  StepMemory memory_;
  StepBatch batch_;
  ModelOutput output_;
  std::vector<TokenId> end_tokens_;
  SamplerScratch sampler_scratch_;
  std::unordered_map<RequestId, Live> live_;  // on the last stage
  TapSink* taps_ = nullptr;
};

}  // namespace lamina
