#include "runner/step_batch.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace lamina {
namespace {

int64_t wanted_rows(const StepEntry& entry) { return selected_rows(wanted_logits(entry), entry.token_count); }

}  // namespace

LogitsRows wanted_logits(const StepEntry& entry) {
  if (entry.all_logits || entry.prompt_logprobs) return LogitsRows::kAll;
  return entry.sample ? LogitsRows::kLast : LogitsRows::kNone;
}

bool pads_rows(std::string_view dp_padding, std::span<const int64_t> dp_rows, bool prefill) {
  if (dp_rows.size() < 2 || dp_padding == "ragged") return false;
  if (dp_padding == "padded") return true;
  const int64_t longest = *std::max_element(dp_rows.begin(), dp_rows.end());
  const int64_t sum = std::accumulate(dp_rows.begin(), dp_rows.end(), int64_t{0});
  return !prefill && 2 * sum >= longest * static_cast<int64_t>(dp_rows.size());
}

StepBatch::StepBatch(const Topology& topology, int rank, std::string_view dp_padding, int page_size, int32_t pages)
    : dp_ranks_(topology.dp_attention), own_head_(topology.dp_lm_head), dp_padding_(dp_padding) {
  batch_.dp_rank = topology.dp_rank(rank);
  batch_.page_size = page_size;
  batch_.pages.reserve(static_cast<size_t>(pages));
}

void StepBatch::build(const StepPlan& plan) {
  batch_.clear();
  entries_.clear();
  selected_.clear();
  count_rows(plan);
  for (int d = 0; d < dp_ranks_; ++d) {
    for (size_t e = 0; e < plan.entries.size(); ++e) {
      if (plan.entries[e].dp_rank == d) append(plan, e);
    }
    const int64_t end = std::accumulate(batch_.dp_rows.begin(), batch_.dp_rows.begin() + d + 1, int64_t{0});
    batch_.input_ids.resize(static_cast<size_t>(end), 0);
  }
  batch_.real_rows = batch_.rows();
  const auto rows = static_cast<size_t>(batch_.dp_rows[static_cast<size_t>(batch_.dp_rank)]);
  batch_.positions.resize(rows, 0);
  batch_.out_cache_loc.resize(rows, 0);
}

void StepBatch::count_rows(const StepPlan& plan) {
  const auto ranks = static_cast<size_t>(dp_ranks_);
  batch_.dp_rows.assign(ranks, 0);
  batch_.dp_selected.assign(ranks, 0);
  bool prefill = false;
  for (const StepEntry& entry : plan.entries) {
    LAMINA_CHECK(entry.dp_rank >= 0 && entry.dp_rank < dp_ranks_, "an entry of an attention-DP rank that does not exist");
    batch_.dp_rows[static_cast<size_t>(entry.dp_rank)] += entry.token_count;
    batch_.dp_selected[static_cast<size_t>(entry.dp_rank)] += wanted_rows(entry);
    prefill |= entry.token_count > 1;
  }
  batch_.dp_padded = pads_rows(dp_padding_, batch_.dp_rows, prefill);
  if (batch_.dp_padded) batch_.dp_rows.assign(ranks, *std::max_element(batch_.dp_rows.begin(), batch_.dp_rows.end()));
}

void StepBatch::append(const StepPlan& plan, size_t index) {
  const StepEntry& entry = plan.entries[index];
  const auto tokens = plan.tokens.begin() + entry.token_begin;
  batch_.input_ids.insert(batch_.input_ids.end(), tokens, tokens + entry.token_count);
  const bool own = entry.dp_rank == batch_.dp_rank;
  const int64_t wanted = wanted_rows(entry);
  if (wanted > 0 && (own || !own_head_)) selected_.push_back({index, selected_rows(), wanted});
  if (!own) return;
  entries_.push_back(index);
  append_sequence(plan, entry);
}

void StepBatch::append_sequence(const StepPlan& plan, const StepEntry& entry) {
  const int64_t page_begin = static_cast<int64_t>(batch_.pages.size());
  for (int32_t p = 0; p < entry.page_count; ++p) batch_.pages.push_back(plan.pages[static_cast<size_t>(entry.page_begin + p)].value);
  batch_.sequences.push_back({.row_begin = batch_.rows(),
                              .row_count = entry.token_count,
                              .prefix_len = entry.prefix_len,
                              .page_begin = page_begin,
                              .rope_length = entry.rope_length,
                              .logits = wanted_logits(entry),
                              .pool = entry.pool});
  const int64_t page_size = batch_.page_size;
  for (int64_t position = entry.prefix_len; position < entry.prefix_len + entry.token_count; ++position) {
    const int64_t page = batch_.pages[static_cast<size_t>(page_begin + position / page_size)];
    batch_.positions.push_back(position);
    batch_.out_cache_loc.push_back(page * page_size + position % page_size);
  }
}

}  // namespace lamina
