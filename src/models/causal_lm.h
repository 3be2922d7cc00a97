#pragma once
// The seam between the engine and an architecture: what a model does in a step and what it needs.

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "layers/attention.h"
#include "layers/boundary/layer_stack.h"
#include "layers/context.h"
#include "layers/rotary.h"
#include "weights/name_map.h"

namespace lamina {

class CausalLM {
 public:
  virtual ~CausalLM() = default;

  /// Runs the batch: K/V of its rows are written, `out` (cleared first) gets the rows the sequences ask for. Views live until the next
  /// step.
  virtual void forward(ForwardContext& ctx, ModelOutput& out) = 0;
  /// Logits [count, vocab] of rows [first, first + count) of out.hidden, count at most LogitsProcessor::kLogitsChunk; valid until the next
  /// call. `candidates` > 0: the caller looks at the largest so many of each row only, lowest ids on ties; other places may be -inf. 0: at
  /// every value. All ranks of the head's group make the call; its rank 0 gets the values, the others a view without data.
  virtual F32View logits(ForwardContext& ctx, const ModelOutput& out, int64_t first, int64_t count, int candidates) = 0;

  /// Captures the residual stream before these layers (n: after the last), strictly ascending, into ModelOutput::aux_hidden.
  virtual Status capture_before(std::vector<int64_t> layers) = 0;

  /// How checkpoint names become parameter names, and which tensors are rightly left out.
  virtual const NameMap& names() const = 0;
  /// What each layer of this stage caches.
  virtual std::vector<KvLayerShape> kv_shapes() const = 0;
  /// The length-dependent rope of the model, if any: rule and threshold.
  virtual RopeLengthRule rope_rule() const = 0;
  virtual int64_t rope_threshold() const = 0;

  /// Upper bounds of the memory of a step of `rows` rows: what lives through it, and what one stage takes.
  virtual size_t step_bytes(int64_t rows) const = 0;
  virtual size_t stage_bytes(int64_t rows, const AttentionBackend& backend, int threads) const = 0;
};

/// A model and what it is made of. Members are destroyed in reverse order: the model before its parameters.
struct BuiltModel {
  std::string architecture;
  std::unique_ptr<ParamList> params;
  std::unique_ptr<RotarySet> rotary;
  std::unique_ptr<LayerStack> stack;
  std::unique_ptr<CausalLM> model;
};

struct ModelOptions {
  bool stage_boundaries = true;  // false: layers own their residual and complete their own sums
  bool dp_lm_head = false;       // the head is cut over attn_tp instead of tp
  BoundaryOptions boundaries;
};

/// What a model class is built from. A pipeline stage holds its own layers only; embedding and head stand on the first and the last.
struct ModelBuild {
  const ModelConfig& config;
  const ModelOptions& options;
  BuildContext& context;
  StageLayers stage;  // of all config.num_hidden_layers
  bool first_stage = true;
  bool last_stage = true;
};

/// One architecture of a family file.
struct ModelEntry {
  std::string_view architecture;
  std::unique_ptr<CausalLM> (*create)(const ModelBuild& build);
};

}  // namespace lamina
