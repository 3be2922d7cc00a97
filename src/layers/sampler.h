#pragma once
// Chooses one token from one row of logits. A pure function of its arguments: batch mates and slots do not occur in it.

#include <cstdint>
#include <span>
#include <vector>

#include "api/types.h"
#include "base/result.h"
#include "kernels/kernels.h"

namespace lamina {

/// Memory of sample(), owned by the caller, one a thread; allocates nothing for vocabularies up to `vocab_size`.
class SamplerScratch {
 public:
  explicit SamplerScratch(int64_t vocab_size);

  struct Candidate {
    TokenId id;
    float x;       // (score - best score) / temperature, at most 0
    float weight;  // exp(x)
  };
  std::vector<float> scores;
  std::vector<Candidate> candidates, edge;
};

/// What sample() knows of a request.
struct SampleContext {
  const SamplingParams& params;         // valid, with a seed
  std::span<const TokenId> history;     // prompt, then outputs
  int64_t prompt_tokens = 0;            // of `history`
  std::span<const TokenId> end_tokens;  // EOS ids, which cannot be chosen before min_new_tokens outputs
};

/// Next token from `logits` [vocab] (no padding ids).
///   1. repetition penalty on every id of the history, once each: l > 0 ? l / p : l * p (Keskar et al. 2019, as Hugging Face); presence
///      and frequency penalties on ids of the output (as OpenAI); logit bias; end tokens cannot be chosen before min_new_tokens
///   2. greedy: the largest, lowest id on ties; nothing below matters
///   3. softmax(l / temperature); top_k: the k likeliest, lowest ids on ties; top_p of what remains, renormalised: the smallest set of the
///      likeliest whose sum is at least top_p; min_p: those of at least min_p times the likeliest
///   4. inverse transform of uniform(seed, choice, output position)
/// A NaN is never chosen; +inf is chosen for sure. An error when every logit is NaN or -inf.
Result<TokenId> sample(const kernels::Kernels& kernels, std::span<const float> logits, const SampleContext& context,
                       SamplerScratch& scratch);

/// How many of the largest logits (lowest ids on ties) sample() and the request's logprobs look at: with -inf in all other places sample()
/// gives the same. 0: at all.
int looked_at(const SamplingParams& params);

/// log softmax of `logits` at `token`, and the `top` likeliest (as SamplingParams::top_logprobs).
TokenLogprob logprob_of(const kernels::Kernels& kernels, std::span<const float> logits, TokenId token, int top, SamplerScratch& scratch);

}  // namespace lamina
