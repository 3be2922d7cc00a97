#include "runner/model_runner.h"

#include <algorithm>

#include "layers/logits.h"

namespace lamina {
namespace {

bool wants_every_row(const StepEntry& entry) { return wanted_logits(entry) == LogitsRows::kAll; }

}  // namespace

bool rank_samples(const Topology& topology, int rank) {
  return topology.dp_lm_head ? rank_reports(topology, rank) : rank == topology.leader();
}

bool rank_reports(const Topology& topology, int rank) {
  return topology.pp_rank(rank) == topology.pp_size - 1 && topology.attn_tp_rank(rank) == 0;
}

ModelRunner::ModelRunner(ModelPlan plan, ThreadTeam& team, KvStore kv, StepMemory memory, const MemoryPlan& sizes,
                         std::vector<TokenId> end_tokens)
    : plan_(std::move(plan)),
      last_stage_(plan_.topology.pp_rank(plan_.rank) == plan_.topology.pp_size - 1),
      samples_(rank_samples(plan_.topology, plan_.rank)),
      reports_(rank_reports(plan_.topology, plan_.rank)),
      compute_{plan_.source->kernels, &team},
      kv_(std::move(kv)),
      memory_(std::move(memory)),
      batch_(plan_.topology, plan_.rank, plan_.dp_padding, sizes.page_size, sizes.pages),
      end_tokens_(std::move(end_tokens)),
      sampler_scratch_(samples_ ? plan_.source->config.vocab_size : 0) {}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(ModelPlan plan, const MemoryPlan& memory, ThreadTeam& team,
                                                         std::vector<TokenId> end_tokens) {
  const LayerId first_layer(checked_cast<int32_t>(plan.stage.begin));
  LAMINA_ASSIGN(KvStore kv,
                KvStore::create(plan.built.model->kv_shapes(), first_layer, plan.source->kv_dtype, memory.pages, memory.page_size));
  for (int64_t layer = plan.stage.begin; plan.kv_scales != nullptr && layer < plan.stage.end(); ++layer) {
    const KvScales::Layer& scales = plan.kv_scales->layers[static_cast<size_t>(layer - plan.stage.begin)];
    kv.set_scales(LayerId(checked_cast<int32_t>(layer)), scales.k, scales.v);
  }
  LAMINA_ASSIGN(Buffer step, Buffer::allocate(memory.step_bytes));
  LAMINA_ASSIGN(Buffer even, Buffer::allocate(memory.stage_bytes));
  LAMINA_ASSIGN(Buffer odd, Buffer::allocate(memory.stage_bytes));
  StepMemory steps(Arena(std::move(step)), Arena(std::move(even)), Arena(std::move(odd)));
  return std::unique_ptr<ModelRunner>(
      new ModelRunner(std::move(plan), team, std::move(kv), std::move(steps), memory, std::move(end_tokens)));
}

void ModelRunner::run(const StepPlan& plan, StepResult& result) {
  result.step = plan.step;
  result.fault.clear();
  result.outputs.resize(plan.entries.size());
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    result.outputs[e] = {};
    result.outputs[e].request = plan.entries[e].request;
  }
  if (last_stage_) follow(plan);
  if (plan.entries.empty()) return;
  for (const PageCopy& copy : plan.copies) {
    if (copy.dp_rank == batch_.batch().dp_rank) kv_.copy(copy.from, copy.to, copy.tokens);
  }
  batch_.build(plan);
  memory_.begin_step();
  ForwardContext ctx{.batch = batch_.batch(),
                     .compute = compute_,
                     .memory = memory_,
                     .kv = kv_,
                     .attention = *plan_.backend,
                     .variant = plan_.built.stack->choose(batch_.batch()),
                     .taps = taps_};
  plan_.built.model->forward(ctx, output_);
  if (!last_stage_) return;
  if (reports_) take_pooled(plan, result);
  if (reports_) take_captured(plan, result);
  take_logits(ctx, plan, result);
}

void ModelRunner::follow(const StepPlan& plan) {
  for (const RequestId id : plan.released) live_.erase(id);
  for (const StepAdmission& admission : plan.admitted) {
    Live live{.sampling = admission.sampling,
              .tokens = {},
              .prompt_tokens = static_cast<int64_t>(admission.prompt.size()),
              .candidates = looked_at(admission.sampling)};
    if (samples_) {
      live.tokens.reserve(admission.prompt.size() + static_cast<size_t>(std::max(0, admission.sampling.max_new_tokens)));
      live.tokens = admission.prompt;
    }
    live_.insert_or_assign(admission.request, std::move(live));
  }
  if (!samples_) return;
  for (const StepEntry& entry : plan.entries) {
    std::vector<TokenId>& tokens = live_.at(entry.request).tokens;
    LAMINA_CHECK(std::ssize(tokens) >= entry.prefix_len, "tokens of a request that no plan has told");
    for (int64_t t = std::ssize(tokens) - entry.prefix_len; t < entry.token_count; ++t) {
      tokens.push_back(plan.tokens[static_cast<size_t>(entry.token_begin + t)]);
    }
  }
}

void ModelRunner::take_logits(ForwardContext& ctx, const StepPlan& plan, StepResult& result) {
  std::span<const SelectedRows> selected = batch_.selected();
  const int64_t rows = batch_.selected_rows();
  for (int64_t first = 0; first < rows; first += LogitsProcessor::kLogitsChunk) {
    const int64_t count = std::min(LogitsProcessor::kLogitsChunk, rows - first);
    while (first >= selected.front().first + selected.front().count) selected = selected.subspan(1);
    const int most = candidates(plan, selected, first + count);
    const ConstF32View logits = plan_.built.model->logits(ctx, output_, first, count, most);
    if (!samples_) continue;
    for (int64_t r = first; r < first + count; ++r) {
      while (r >= selected.front().first + selected.front().count) selected = selected.subspan(1);
      const auto [entry, begin, unused] = selected.front();
      take_row(plan.entries[entry], {logits.row(r - first), static_cast<size_t>(logits.cols)}, r - begin, result.outputs[entry]);
    }
  }
}

int ModelRunner::candidates(const StepPlan& plan, std::span<const SelectedRows> selected, int64_t end) const {
  int most = 0;
  for (const SelectedRows& rows : selected) {
    if (rows.first >= end) break;
    const StepEntry& entry = plan.entries[rows.entry];
    const int needed = wants_every_row(entry) ? 0 : live_.at(entry.request).candidates;
    if (needed == 0) return 0;
    most = std::max(most, needed);
  }
  return most;
}

void ModelRunner::take_row(const StepEntry& entry, std::span<const float> row, int64_t index, StepOutput& output) {
  const Live& live = live_.at(entry.request);
  if (entry.all_logits) output.prompt_logits.insert(output.prompt_logits.end(), row.begin(), row.end());
  if (entry.prompt_logprobs) take_prompt_logprob(live, row, entry.prefix_len + index, output);
  if (entry.sample && (!wants_every_row(entry) || index + 1 == entry.token_count)) sample_token(live, row, output);
}

/// The row at `position` predicts the prompt's next token; the last row predicts the first output.
void ModelRunner::take_prompt_logprob(const Live& live, std::span<const float> row, int64_t position, StepOutput& output) {
  if (position + 1 >= live.prompt_tokens) return;
  const TokenId next = live.tokens[static_cast<size_t>(position + 1)];
  output.prompt_logprobs.push_back(logprob_of(*compute_.kernels, row, next, live.sampling.top_logprobs, sampler_scratch_));
}

void ModelRunner::sample_token(const Live& live, std::span<const float> row, StepOutput& output) {
  const SampleContext context{live.sampling, live.tokens, live.prompt_tokens, end_tokens_};
  Result<TokenId> token = sample(*compute_.kernels, row, context, sampler_scratch_);
  if (!token.ok()) {
    output.error = token.error().message;
    return;
  }
  output.token = *token;
  if (live.sampling.top_logprobs >= 0) {
    output.logprob = logprob_of(*compute_.kernels, row, *token, live.sampling.top_logprobs, sampler_scratch_);
  }
}

void ModelRunner::take_pooled(const StepPlan& plan, StepResult& result) const {
  int64_t row = 0;
  for (const size_t e : batch_.entries()) {
    if (!plan.entries[e].pool) continue;
    const float* values = output_.pooled.row(row++);
    result.outputs[e].embedding.assign(values, values + output_.pooled.cols);
  }
}

void ModelRunner::take_captured(const StepPlan& plan, StepResult& result) const {
  const std::vector<BatchSequence>& sequences = batch_.batch().sequences;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const size_t e = batch_.entries()[s];
    if (!plan.entries[e].all_logits) continue;
    for (const F32View& captured : output_.aux_hidden) {
      const float* begin = captured.row(sequences[s].row_begin);
      result.outputs[e].captured.emplace_back(begin, begin + sequences[s].row_count * captured.cols);
    }
  }
}

}  // namespace lamina
