#include "runner/model_runner.h"

#include <algorithm>

#include "base/strings.h"
#include "layers/logits.h"

namespace lamina {

ModelRunner::ModelRunner(ModelPlan plan, ThreadTeam& team, KvStore kv, StepMemory memory, int32_t pages, std::vector<TokenId> end_tokens)
    : plan_(std::move(plan)),
      compute_{plan_.source->kernels, &team},
      kv_(std::move(kv)),
      memory_(std::move(memory)),
      end_tokens_(std::move(end_tokens)),
      sampler_scratch_(plan_.source->config.vocab_size) {
  batch_.page_size = kv_.page_size();
  batch_.pages.reserve(static_cast<size_t>(pages));
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(ModelPlan plan, const MemoryPlan& memory, ThreadTeam& team,
                                                         std::vector<TokenId> end_tokens) {
  LAMINA_ASSIGN(KvStore kv, KvStore::create(plan.built.model->kv_shapes(), LayerId(0), plan.source->kv_dtype, memory.pages,
                                            memory.page_size));
  LAMINA_ASSIGN(Buffer step, Buffer::allocate(memory.step_bytes));
  LAMINA_ASSIGN(Buffer even, Buffer::allocate(memory.stage_bytes));
  LAMINA_ASSIGN(Buffer odd, Buffer::allocate(memory.stage_bytes));
  StepMemory steps(Arena(std::move(step)), Arena(std::move(even)), Arena(std::move(odd)));
  return std::unique_ptr<ModelRunner>(
      new ModelRunner(std::move(plan), team, std::move(kv), std::move(steps), memory.pages, std::move(end_tokens)));
}

void ModelRunner::append_sequence(const StepPlan& plan, const StepEntry& entry) {
  const int64_t page_begin = static_cast<int64_t>(batch_.pages.size());
  for (int32_t p = 0; p < entry.page_count; ++p) batch_.pages.push_back(plan.pages[static_cast<size_t>(entry.page_begin + p)].value);
  const LogitsRows logits = entry.all_logits || entry.prompt_logprobs ? LogitsRows::kAll
                            : entry.sample                            ? LogitsRows::kLast
                                                                      : LogitsRows::kNone;
  batch_.sequences.push_back({.row_begin = batch_.rows(),
                              .row_count = entry.token_count,
                              .prefix_len = entry.prefix_len,
                              .page_begin = page_begin,
                              .rope_length = entry.rope_length,
                              .logits = logits,
                              .pool = entry.pool});
  const int64_t page_size = batch_.page_size;
  for (int32_t t = 0; t < entry.token_count; ++t) {
    const int64_t position = entry.prefix_len + t;
    const int64_t page = batch_.pages[static_cast<size_t>(page_begin + position / page_size)];
    batch_.input_ids.push_back(plan.tokens[static_cast<size_t>(entry.token_begin + t)]);
    batch_.positions.push_back(position);
    batch_.out_cache_loc.push_back(page * page_size + position % page_size);
  }
}

void ModelRunner::build_batch(const StepPlan& plan) {
  batch_.clear();
  for (const StepEntry& entry : plan.entries) append_sequence(plan, entry);
  batch_.real_rows = batch_.rows();
}

void ModelRunner::run(const StepPlan& plan, StepResult& result) {
  result.step = plan.step;
  result.outputs.resize(plan.entries.size());
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    result.outputs[e] = {};
    result.outputs[e].request = plan.entries[e].request;
  }
  for (const RequestId id : plan.released) live_.erase(id);
  for (const StepAdmission& admission : plan.admitted) {
    Live live{admission.sampling, admission.prompt, static_cast<int64_t>(admission.prompt.size())};
    live.tokens.reserve(admission.prompt.size() + static_cast<size_t>(std::max(0, admission.sampling.max_new_tokens)));
    live_.insert_or_assign(admission.request, std::move(live));
  }
  if (plan.entries.empty()) return;
  for (const PageCopy& copy : plan.copies) kv_.copy(copy.from, copy.to, copy.tokens);
  build_batch(plan);
  memory_.begin_step();
  ForwardContext ctx{.batch = batch_, .compute = compute_, .memory = memory_, .kv = kv_, .attention = *plan_.backend, .taps = taps_};
  plan_.built.model->forward(ctx, output_);
  take_pooled(plan, result);
  take_captured(plan, result);
  take_logits(ctx, plan, result);
}

void ModelRunner::take_logits(ForwardContext& ctx, const StepPlan& plan, StepResult& result) {
  size_t entry = 0;
  for (int64_t first = 0; first < output_.hidden.rows; first += LogitsProcessor::kLogitsChunk) {
    const int64_t count = std::min(LogitsProcessor::kLogitsChunk, output_.hidden.rows - first);
    const ConstF32View logits = plan_.built.model->logits(ctx, output_, first, count);
    for (int64_t r = 0; r < count; ++r) {
      while (first + r >= output_.rows[entry].first + output_.rows[entry].count) ++entry;
      take_row(plan.entries[entry], {logits.row(r), static_cast<size_t>(logits.cols)}, first + r - output_.rows[entry].first,
               result.outputs[entry]);
    }
  }
}

void ModelRunner::take_row(const StepEntry& entry, std::span<const float> row, int64_t index, StepOutput& output) {
  Live& live = live_.at(entry.request);
  const bool every_row = entry.all_logits || entry.prompt_logprobs;
  if (entry.all_logits) output.prompt_logits.insert(output.prompt_logits.end(), row.begin(), row.end());
  if (entry.prompt_logprobs) take_prompt_logprob(live, row, entry.prefix_len + index, output);
  if (entry.sample && (!every_row || index + 1 == entry.token_count)) sample_token(live, row, output);
}

/// The row at `position` predicts the prompt's next token; the last row predicts the first output.
void ModelRunner::take_prompt_logprob(const Live& live, std::span<const float> row, int64_t position, StepOutput& output) {
  if (position + 1 >= live.prompt_tokens) return;
  const TokenId next = live.tokens[static_cast<size_t>(position + 1)];
  output.prompt_logprobs.push_back(logprob_of(*compute_.kernels, row, next, live.sampling.top_logprobs, sampler_scratch_));
}

void ModelRunner::sample_token(Live& live, std::span<const float> row, StepOutput& output) {
  const SampleContext context{live.sampling, live.tokens, live.prompt_tokens, end_tokens_};
  Result<TokenId> token = sample(*compute_.kernels, row, context, sampler_scratch_);
  if (!token.ok()) {
    output.error = token.error().message;
    return;
  }
  live.tokens.push_back(*token);
  output.token = *token;
  if (live.sampling.top_logprobs >= 0) {
    output.logprob = logprob_of(*compute_.kernels, row, *token, live.sampling.top_logprobs, sampler_scratch_);
  }
}

void ModelRunner::take_pooled(const StepPlan& plan, StepResult& result) const {
  int64_t row = 0;
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    if (!plan.entries[e].pool) continue;
    const float* values = output_.pooled.row(row++);
    result.outputs[e].embedding.assign(values, values + output_.pooled.cols);
  }
}

void ModelRunner::take_captured(const StepPlan& plan, StepResult& result) const {
  for (size_t e = 0; e < plan.entries.size(); ++e) {
    if (!plan.entries[e].all_logits) continue;
    const BatchSequence& sequence = batch_.sequences[e];
    for (const F32View& captured : output_.aux_hidden) {
      const float* begin = captured.row(sequence.row_begin);
      result.outputs[e].captured.emplace_back(begin, begin + sequence.row_count * captured.cols);
    }
  }
}

}  // namespace lamina
