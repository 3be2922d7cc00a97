#pragma once
// What the scheduler tells the runner and what comes back: plain values, no model, no tensor.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/ids.h"

namespace lamina {

/// Size of the KV pool, known before the scheduler starts.
struct KvCapacity {
  int32_t pages = 0;  // without the dummy page
  int page_size = 16;
  int64_t tokens() const { return int64_t{pages} * page_size; }
};

/// One request's share of a step: positions [prefix_len, prefix_len + token_count). A request has at most one entry in a plan and in all
/// plans in flight. Positions that an earlier entry computed may come again (after a retraction or a rope switch): their K/V are then
/// written anew. Every token up to the last of an entry was in the prompt told at admission or in an entry of the request, this one or an
/// earlier one: whoever reads all plans knows the whole history, whichever rank sampled it.
struct StepEntry {
  RequestId request;
  int32_t dp_rank = 0;                       // the attention-DP rank whose pool holds `pages`; another one only after a retraction
  int32_t token_begin = 0, token_count = 0;  // into StepPlan::tokens
  int32_t page_begin = 0, page_count = 0;    // into StepPlan::pages: the table that covers prefix and tokens, no more
  int64_t prefix_len = 0;
  int64_t rope_length = 0;       // kNone: 0; kAtAdmission: max(prompt, original); kSwitchAtOriginal: original, then original + 1
  bool sample = false;           // the last row's logits choose the next token
  bool all_logits = false;       // return the logits of every row of this entry
  bool prompt_logprobs = false;  // return the logprob of the token that follows each prompt row of this entry
  bool pool = false;             // return the pooled embedding of the last row
  friend bool operator==(const StepEntry&, const StepEntry&) = default;
};

/// Told to the runner once, with the first entry of a request: what its sampler needs to know.
struct StepAdmission {
  RequestId request;
  SamplingParams sampling;  // seed always set
  std::vector<TokenId> prompt;
  friend bool operator==(const StepAdmission&, const StepAdmission&) = default;
};

/// The first `tokens` of page `from` go to page `to` in every layer, before anything else of the step and in the plan's order.
struct PageCopy {
  PageId from, to;
  int32_t tokens = 0;   // 0: nothing to copy
  int32_t dp_rank = 0;  // whose pages
  friend bool operator==(const PageCopy&, const PageCopy&) = default;
};

/// Decodes first, then prefill chunks. A plan may have only `released`.
struct StepPlan {
  int64_t step = 0;
  std::vector<StepAdmission> admitted;
  std::vector<RequestId> released;  // will not occur again; one that was cancelled while it waited has never occurred
  std::vector<PageCopy> copies;
  std::vector<StepEntry> entries;
  std::vector<TokenId> tokens;
  std::vector<PageId> pages;

  bool empty() const { return entries.empty() && released.empty(); }
  /// Empties without giving memory back.
  void clear() { admitted.clear(), released.clear(), copies.clear(), entries.clear(), tokens.clear(), pages.clear(); }
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

struct StepOutput {
  RequestId request;
  std::optional<TokenId> token;               // when the entry sampled
  std::optional<TokenLogprob> logprob;        // of `token`, when the request asked for logprobs
  std::vector<TokenLogprob> prompt_logprobs;  // of prompt tokens from prefix_len + 1 on, when the entry asked
  std::vector<float> prompt_logits;           // [rows, vocab] when all_logits
  std::vector<float> embedding;               // [hidden] when pool
  std::vector<std::vector<float>> captured;   // with all_logits, when the model captures: [rows, hidden] a capture layer
  std::string error;                          // not empty: the request cannot go on (its logits hold no number); it then has no token
  friend bool operator==(const StepOutput&, const StepOutput&) = default;
};

struct StepResult {
  int64_t step = 0;
  std::string fault;                // not empty: the ranks cannot go on; `outputs` is then void
  std::vector<StepOutput> outputs;  // in the order of the plan's entries
  friend bool operator==(const StepResult&, const StepResult&) = default;
};

}  // namespace lamina
