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
      : embed_tokens(build.context, cat(prefix, ".embed_tokens"), build.config.vocab_size, build.config.hidden_size),
        norm(build.context, cat(prefix, ".norm"), build.config.hidden_size, build.config.rms_norm_eps),
        rotary_(&build.context.rotary()),
        stack_(&build.context.stack()),
        hidden_size_(build.config.hidden_size) {
    stack_->open(build.config.num_hidden_layers, [facts = Layer::stages(build)](LayerId) { return facts; });
    for (int32_t id = 0; id < build.config.num_hidden_layers; ++id) {
      layers.push_back(std::make_unique<Layer>(build, LayerId(id), cat(prefix, ".layers.", id)));
    }
    if (Status closed = stack_->close(); !closed.ok()) build.context.fail(closed.error());
  }

  /// Hidden states [rows, hidden] after the final norm, in stage memory; the residual before each layer of `capture` goes to `captured`.
  ConstF32View forward(ForwardContext& ctx, const std::vector<int64_t>& capture, std::vector<F32View>& captured) const {
    const F32View residual = ctx.memory.step().matrix(ctx.batch.rows(), hidden_size_);
    embed_tokens.forward(ctx, ctx.batch.input_ids, residual);
    ctx.tap("model.embed_tokens", "output", residual);
    rotary_->prepare(ctx);
    ResidualStream stream(residual);
    while (captured.size() < capture.size()) captured.push_back(ctx.memory.step().matrix(ctx.batch.real_rows, hidden_size_));
    for (size_t i = 0; i < layers.size(); ++i) {
      capture_before(static_cast<int64_t>(i), stream, capture, captured);
      layers[i]->forward(ctx, stream);
    }
    capture_before(static_cast<int64_t>(layers.size()), stream, capture, captured);
    return stack_->final_boundary().prepare(ctx, stream, norm).f32();
  }

  int64_t hidden_size() const { return hidden_size_; }

  VocabParallelEmbedding embed_tokens;
  std::vector<std::unique_ptr<Layer>> layers;
  RmsNorm norm;

 private:
  static void capture_before(int64_t layer, ResidualStream& stream, const std::vector<int64_t>& capture,
                             const std::vector<F32View>& captured) {
    for (size_t c = 0; c < capture.size(); ++c) {
      if (capture[c] == layer) stream.capture_next(captured[c]);
    }
  }

  RotarySet* rotary_;
  LayerStack* stack_;
  int64_t hidden_size_;
};

/// XForCausalLM: assembles body, head (the embedding itself when tied), logits processor and pooler.
template <class Model>
class DecoderForCausalLM final : public CausalLM {
 public:
  explicit DecoderForCausalLM(const ModelBuild& build)
      : model(build, "model"),
        lm_head(build.config.tie_word_embeddings
                    ? ParallelLMHead(build.context, model.embed_tokens, build.options.dp_lm_head ? "attn_tp" : "tp")
                    : ParallelLMHead(build.context, "lm_head", build.config.vocab_size, build.config.hidden_size,
                                     build.options.dp_lm_head ? "attn_tp" : "tp")),
        logits_processor(build.context, lm_head),
        pooler(PoolingType::kLast, true),
        names_(decoder_name_map(build.config)),
        rotary_(&build.context.rotary()) {}

  void forward(ForwardContext& ctx, ModelOutput& out) override {
    out.rows.clear();
    out.aux_hidden.clear();
    const ConstF32View hidden = model.forward(ctx, capture_, out.aux_hidden);
    ctx.tap("model.norm", "output", hidden);
    logits_processor.select(ctx, hidden, out);
    const auto& sequences = ctx.batch.sequences;
    const int64_t pooled = std::count_if(sequences.begin(), sequences.end(), [](const BatchSequence& s) { return s.pool; });
    out.pooled = ctx.memory.step().matrix(pooled, model.hidden_size());
    if (pooled > 0) pooler.forward(ctx.batch, hidden, out.pooled);
  }

  F32View logits(ForwardContext& ctx, const ModelOutput& out, int64_t first, int64_t count, int candidates) override {
    return logits_processor.compute(ctx, out, first, count, candidates);
  }

  Status capture_before(std::vector<int64_t> layers) override {
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
    const size_t matrices = 4 + capture_.size();  // residual, selected, pooled, one of slack; captures
    return matrices * static_cast<size_t>(rows * model.hidden_size() * 4 + 4096) + rotary_->step_bytes(rows);
  }
  size_t stage_bytes(int64_t rows, const AttentionBackend& backend, int threads) const override {
    size_t most = lm_head.stage_bytes(std::min(rows, LogitsProcessor::kLogitsChunk));
    most = std::max(most, model.norm.stage_bytes(rows));
    for (const auto& layer : model.layers) most = std::max(most, layer->stage_bytes(rows, backend, threads));
    return most;
  }

  Model model;
  ParallelLMHead lm_head;
  LogitsProcessor logits_processor;
  Pooler pooler;

 private:
  NameMap names_;
  RotarySet* rotary_;
  std::vector<int64_t> capture_;
};

}  // namespace lamina
