#pragma once
// One rank: StepPlan -> ForwardBatch -> model -> logits -> sampler -> StepResult. Owns the step's memory, the KV store and the backend.

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "layers/sampler.h"
#include "plan/memory.h"
#include "plan/model_plan.h"
#include "scheduler/step.h"

namespace lamina {

class ModelRunner {
 public:
  /// Takes over a plan whose weights are loaded; reserves step memory and KV store (committed on first use). `team` outlives the runner.
  /// `end_tokens`: the model's EOS ids.
  static Result<std::unique_ptr<ModelRunner>> create(ModelPlan plan, const MemoryPlan& memory, ThreadTeam& team,
                                                     std::vector<TokenId> end_tokens);

  /// Executes a plan; `result` is overwritten. Plans come in order, from one thread.
  void run(const StepPlan& plan, StepResult& result);

  /// Receives the named intermediates of every later step; nullptr for none.
  void set_taps(TapSink* taps) { taps_ = taps; }
  const CausalLM& model() const { return *plan_.built.model; }

 private:
  /// What the sampler needs to know of a live request.
  struct Live {
    SamplingParams sampling;
    std::vector<TokenId> tokens;  // prompt and outputs
    int64_t prompt_tokens = 0;
  };

  ModelRunner(ModelPlan plan, ThreadTeam& team, KvStore kv, StepMemory memory, int32_t pages, std::vector<TokenId> end_tokens);
  void build_batch(const StepPlan& plan);
  void append_sequence(const StepPlan& plan, const StepEntry& entry);
  void take_logits(ForwardContext& ctx, const StepPlan& plan, StepResult& result);
  /// Row `index` of an entry's logits rows.
  void take_row(const StepEntry& entry, std::span<const float> row, int64_t index, StepOutput& output);
  void take_prompt_logprob(const Live& live, std::span<const float> row, int64_t position, StepOutput& output);
  void sample_token(Live& live, std::span<const float> row, StepOutput& output);
  void take_pooled(const StepPlan& plan, StepResult& result) const;
  void take_captured(const StepPlan& plan, StepResult& result) const;

  ModelPlan plan_;
  Compute compute_;
  KvStore kv_;
  StepMemory memory_;
  ForwardBatch batch_;
  ModelOutput output_;
  std::vector<TokenId> end_tokens_;
  SamplerScratch sampler_scratch_;
  std::unordered_map<RequestId, Live> live_;
  TapSink* taps_ = nullptr;
};

}  // namespace lamina
