#pragma once
// One rank: StepPlan -> ForwardBatch -> model -> logits -> sampler -> StepResult. Owns the step's memory, the KV store and the backend.

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "layers/sampler.h"
#include "models/causal_lm.h"
#include "plan/memory.h"
#include "scheduler/step.h"

namespace lamina {

class ModelRunner {
 public:
  struct Parts {
    BuiltModel model;
    std::unique_ptr<AttentionBackend> backend;
    Compute compute;  // outlives the runner
    MemoryPlan memory;
    DType kv_dtype = DType::kBF16;
    int64_t vocab_size = 0;
  };
  /// Reserves step memory and KV store (committed on first use). Weights are loaded already, or are loaded before run().
  static Result<std::unique_ptr<ModelRunner>> create(Parts parts);

  /// Executes a plan; `result` is overwritten. Plans come in order, from one thread.
  void run(const StepPlan& plan, StepResult& result);

  /// Receives the named intermediates of every later step; nullptr for none.
  void set_taps(TapSink* taps) { taps_ = taps; }
  const BuiltModel& model() const { return parts_.model; }

 private:
  /// What the sampler needs to know of a live request.
  struct Live {
    SamplingParams sampling;
    std::vector<TokenId> tokens;  // prompt and outputs
    int64_t prompt_tokens = 0;
  };

  ModelRunner(Parts parts, KvStore kv, StepMemory memory)
      : parts_(std::move(parts)), kv_(std::move(kv)), memory_(std::move(memory)) {}
  void build_batch(const StepPlan& plan);
  void append_sequence(const StepPlan& plan, const StepEntry& entry);
  void take_logits(ForwardContext& ctx, const StepPlan& plan, StepResult& result);
  void take_row(const StepEntry& entry, std::span<const float> row, bool last, StepOutput& output);
  void take_pooled(const StepPlan& plan, StepResult& result) const;
  void take_captured(const StepPlan& plan, StepResult& result) const;

  Parts parts_;
  KvStore kv_;
  StepMemory memory_;
  ForwardBatch batch_;
  ModelOutput output_;
  SamplerScratch sampler_scratch_{0};
  std::unordered_map<RequestId, Live> live_;
  TapSink* taps_ = nullptr;
};

}  // namespace lamina
