#pragma once
// What layers receive by parameter: BuildContext while modules are made, ForwardContext while they run.

#include <optional>
#include <string>
#include <string_view>

#include "batch/forward_batch.h"
#include "batch/kv_store.h"
#include "layers/boundary/stage.h"
#include "parallel/topology.h"
#include "tensor/buffer.h"
#include "weights/format.h"

namespace lamina {

class AttentionBackend;
class LayerStack;
class RotarySet;

/// Construction. Modules are made by plain constructors; the first thing that does not fit is recorded here and refuses the model.
class BuildContext {
 public:
  BuildContext(const ParallelGroups& groups, const WeightFormat& format, ParamList& params, LayerStack& stack, RotarySet& rotary)
      : groups_(groups), format_(format), params_(params), stack_(stack), rotary_(rotary) {}

  const WeightFormat& format() const { return format_; }
  ParamList& params() { return params_; }
  LayerStack& stack() { return stack_; }
  RotarySet& rotary() { return rotary_; }
  /// The group called `name`; records an error and gives a group of one when it does not exist.
  const ParallelGroup& group(std::string_view name);

  void fail(Error error);
  /// Records the error of `result`, if any; its value otherwise.
  template <class T>
  std::optional<T> check(Result<T> result) {
    if (!result.ok()) {
      fail(result.error());
      return std::nullopt;
    }
    return std::move(result).value();
  }
  Status status() const;

 private:
  const ParallelGroups& groups_;
  const WeightFormat& format_;
  ParamList& params_;
  LayerStack& stack_;
  RotarySet& rotary_;
  std::optional<Error> error_;
};

/// Receives named intermediates: `module` is the HF path ("model.layers.3.self_attn"), `value` what it is ("q_rope").
class TapSink {
 public:
  virtual ~TapSink() = default;
  /// `view` holds this rank's columns of the step's full rows from `first_row` on; ranks may hold the same rows or shares of them.
  virtual void tap(std::string_view module, std::string_view value, ConstF32View view, int64_t first_row) = 0;
  /// Bytes that this rank got from others at a boundary.
  virtual void wire(std::string_view module, std::string_view boundary, uint64_t bytes) = 0;
};

/// Memory of a step. A stage's memory lives until the end of the next stage, so that what it returns can be consumed there.
class StepMemory {
 public:
  StepMemory(Arena step, Arena even, Arena odd) : step_(std::move(step)), stages_{std::move(even), std::move(odd)} {}

  /// Lives until the next step.
  Arena& step() { return step_; }
  /// The current stage's.
  Arena& stage() { return stages_[current_]; }
  /// Starts a stage: its arena is that of the stage before the last, emptied.
  void next_stage() {
    current_ ^= 1;
    stages_[current_].reset();
  }
  void begin_step() {
    step_.reset();
    stages_[0].reset();
    stages_[1].reset();
  }

 private:
  Arena step_;
  Arena stages_[2];
  int current_ = 0;
};

/// One forward. Nothing here is owned; everything outlives the step.
struct ForwardContext {
  const ForwardBatch& batch;
  Compute compute;
  StepMemory& memory;
  KvStore& kv;
  AttentionBackend& attention;
  BatchVariant variant = BatchVariant::kOrdinary;
  TapSink* taps = nullptr;

  Arena& arena() { return memory.stage(); }
  void tap(std::string_view module, std::string_view value, ConstF32View view, int64_t first_row) const {
    if (taps != nullptr) taps->tap(module, value, view, first_row);
  }
  /// For rows of this attention-DP rank.
  void tap(std::string_view module, std::string_view value, ConstF32View view) const { tap(module, value, view, batch.local_begin()); }
};

}  // namespace lamina
