#pragma once
// The skeleton of a decoder-only model, generic in its layer type: embedding, layers, final norm; and the causal model that assembles it
// with head, logits processor, pooler and capture hook.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "layers/embedding.h"
#include "layers/logits.h"
#include "layers/pooler.h"
#include "models/causal_lm.h"
#include "models/name_rules.h"

namespace lamina {

template <class Layer>
class DecoderModel {
 public:
  DecoderModel(const ModelBuild& build, const std::string& prefix)
      : rotary_(&build.context.rotary()),
        stack_(&build.context.stack()),
        hidden_size_(build.config.hidden_size),
        first_layer_(build.stage.begin) {
    if (build.first_stage) {
      embed_tokens.emplace(build.context, cat(prefix, ".embed_tokens"), build.config.vocab_size, build.config.hidden_size);
    }
    if (build.last_stage) {
      norm.emplace(build.context, cat(prefix, ".norm"), build.config.hidden_size, build.config.rms_norm_eps);
    }
    stack_->open(build.config.num_hidden_layers, build.stage, [facts = Layer::stages(build)](LayerId) { return facts; });
    for (int64_t id = build.stage.begin; id < build.stage.end(); ++id) {
      layers.push_back(std::make_unique<Layer>(build, LayerId(static_cast<int32_t>(id)), cat(prefix, ".layers.", id)));
    }
    if (Status closed = stack_->close(); !closed.ok()) build.context.fail(closed.error());
  }

  /// Hidden states [local rows, hidden] after the final norm, in stage memory; the residual before each layer of `capture` goes to
  /// `captured`. On another stage than the last: nothing, the stream goes to the next.
  ConstF32View forward(ForwardContext& ctx, const std::vector<int64_t>& capture, std::vector<F32View>& captured) const {
    rotary_->prepare(ctx);
    ResidualStream stream = embed_tokens ? stack_->start(ctx, embed(ctx)) : stack_->receive(ctx, hidden_size_);
    while (captured.size() < capture.size()) captured.push_back(ctx.memory.step().matrix(ctx.batch.rows(), hidden_size_));
    for (size_t i = 0; i < layers.size(); ++i) {
      capture_before(first_layer_ + static_cast<int64_t>(i), stream, capture, captured);
      layers[i]->forward(ctx, stream);
    }
    if (!norm) {
      stack_->hand_over(stream);
      return {};
    }
    capture_before(first_layer_ + std::ssize(layers), stream, capture, captured);
    return stack_->final_boundary().prepare(ctx, stream, *norm).f32();
  }

  int64_t hidden_size() const { return hidden_size_; }

  std::optional<VocabParallelEmbedding> embed_tokens;  // on the first stage
  std::vector<std::unique_ptr<Layer>> layers;          // of this stage
  std::optional<RmsNorm> norm;                         // on the last stage

 private:
  F32View embed(ForwardContext& ctx) const {
    const F32View full = ctx.memory.step().matrix(ctx.batch.full_rows(), hidden_size_);
    embed_tokens->forward(ctx, ctx.batch.input_ids, full);
    ctx.tap("model.embed_tokens", "output", full, 0);
    return full;
  }
  static void capture_before(int64_t layer, ResidualStream& stream, const std::vector<int64_t>& capture,
                             const std::vector<F32View>& captured) {
    for (size_t c = 0; c < capture.size(); ++c) {
      if (capture[c] == layer) stream.capture_next(captured[c]);
    }
  }

  RotarySet* rotary_;
  LayerStack* stack_;
  int64_t hidden_size_;
  int64_t first_layer_;
};

/// XForCausalLM: assembles body, head (the embedding itself when tied), logits processor and pooler.
template <class Model>
class DecoderForCausalLM final : public CausalLM {
 public:
  explicit DecoderForCausalLM(const ModelBuild& build)
      : model(build, "model"),
        pooler(PoolingType::kLast, true),
        names_(decoder_name_map(build.config)),
        rotary_(&build.context.rotary()),
        one_stage_(build.first_stage && build.last_stage) {
    if (!build.last_stage) return;
    const std::string_view group = build.options.dp_lm_head ? "attn_tp" : "tp";
    const bool tied = build.config.tie_word_embeddings;
    if (tied && model.embed_tokens) {
      lm_head.emplace(build.context, *model.embed_tokens, group);
    } else {
      lm_head.emplace(build.context, tied ? "model.embed_tokens" : "lm_head", build.config.vocab_size, build.config.hidden_size, group);
    }
    logits_processor.emplace(build.context, *lm_head);
  }

  void forward(ForwardContext& ctx, ModelOutput& out) override {
    out.rows.clear();
    out.aux_hidden.clear();
    const ConstF32View hidden = model.forward(ctx, capture_, out.aux_hidden);
    out.hidden = {}, out.pooled = {};
    if (!lm_head) return;
    ctx.tap("model.norm", "output", hidden);
    logits_processor->select(ctx, hidden, out);
    const auto& sequences = ctx.batch.sequences;
    const int64_t pooled = std::count_if(sequences.begin(), sequences.end(), [](const BatchSequence& s) { return s.pool; });
    out.pooled = ctx.memory.step().matrix(pooled, model.hidden_size());
    if (pooled > 0) pooler.forward(ctx.batch, hidden, out.pooled);
  }

  F32View logits(ForwardContext& ctx, const ModelOutput& out, int64_t first, int64_t count, int candidates) override {
    return logits_processor->compute(ctx, out, first, count, candidates);
  }

  Status capture_before(std::vector<int64_t> layers) override {
    if (!layers.empty() && !one_stage_) return error("hidden states are captured where one pipeline stage holds all layers: --pp-size 1");
    const int64_t last = static_cast<int64_t>(model.layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] < 0 || layers[i] > last) return error("capture layer ", layers[i], " is outside [0, ", last, "]");
      if (i > 0 && layers[i] <= layers[i - 1]) return error("capture layers must ascend: ", layers[i], " follows ", layers[i - 1]);
    }
    capture_ = std::move(layers);
    return {};
  }

  const NameMap& names() const override { return names_; }
  std::vector<KvLayerShape> kv_shapes() const override {
    std::vector<KvLayerShape> shapes;
    for (const auto& layer : model.layers) shapes.push_back(layer->self_attn.kv_shape());
    return shapes;
  }
  RopeLengthRule rope_rule() const override { return rotary_->length_rule(); }
  int64_t rope_threshold() const override { return rotary_->threshold(); }

  size_t step_bytes(int64_t rows) const override {
    const size_t matrices = 5 + capture_.size();  // residual, selected, pooled, received, one of slack; captures
    const size_t reads = 2 * model.layers.size() + 1;
    return matrices * static_cast<size_t>(rows * model.hidden_size() * 4 + 4096) + reads * ResidualStream::kBytesPerRead +
           rotary_->step_bytes(rows);
  }
  size_t stage_bytes(int64_t rows, const AttentionBackend& backend, int threads) const override {
    size_t most = 0;
    if (lm_head)
      most = std::max(model.norm->stage_bytes(rows, threads), lm_head->stage_bytes(std::min(rows, LogitsProcessor::kLogitsChunk)));
    for (const auto& layer : model.layers) most = std::max(most, layer->stage_bytes(rows, backend, threads));
    return most;
  }

  Model model;
  std::optional<ParallelLMHead> lm_head;  // on the last stage, like all that follows
  std::optional<LogitsProcessor> logits_processor;
  Pooler pooler;

 private:
  NameMap names_;
  RotarySet* rotary_;
  bool one_stage_;
  std::vector<int64_t> capture_;
};

}  // namespace lamina
