#include "layers/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "api/sampling.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/rng.h"
#include "base/strings.h"

namespace lamina {

namespace {

using Candidate = SamplerScratch::Candidate;

/// Whatever the history.
bool always_changes_logits(const SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0 ||
         !params.logit_bias.empty();
}

bool changes_logits(const SampleContext& context) {
  return always_changes_logits(context.params) || std::ssize(context.history) - context.prompt_tokens < context.params.min_new_tokens;
}

float& at(std::vector<float>& scores, TokenId id) {
  LAMINA_CHECK(id >= 0 && id < std::ssize(scores), "a token outside the vocabulary");
  return scores[static_cast<size_t>(id)];
}

void penalise_history(std::span<const float> logits, const SampleContext& context, std::vector<float>& scores) {
  const SamplingParams& params = context.params;
  if (params.repetition_penalty != 1.0) {
    const auto factor = static_cast<float>(params.repetition_penalty);
    for (const TokenId id : context.history) {  // reads the original: an id that occurs twice is penalised once
      float& score = at(scores, id);
      const float logit = logits[static_cast<size_t>(id)];
      score = logit > 0 ? logit / factor : logit * factor;
    }
  }
  if (params.presence_penalty == 0.0 && params.frequency_penalty == 0.0) return;
  const std::span<const TokenId> outputs = context.history.subspan(static_cast<size_t>(context.prompt_tokens));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool first = std::find(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), outputs[i]) ==
                       outputs.begin() + static_cast<std::ptrdiff_t>(i);
    at(scores, outputs[i]) -= static_cast<float>(params.frequency_penalty + (first ? params.presence_penalty : 0.0));
  }
}

/// The logits, or a copy with penalties, bias and barred tokens.
std::span<const float> adjusted(std::span<const float> logits, const SampleContext& context, std::vector<float>& scores) {
  if (!changes_logits(context)) return logits;
  scores.assign(logits.begin(), logits.end());
  penalise_history(logits, context, scores);
  for (const LogitBias& bias : context.params.logit_bias) at(scores, bias.token) += bias.bias;
  if (std::ssize(context.history) - context.prompt_tokens < context.params.min_new_tokens) {
    for (const std::span<const TokenId> ids : {context.end_tokens, std::span<const TokenId>(context.params.stop_token_ids)}) {
      for (const TokenId id : ids) at(scores, id) = -std::numeric_limits<float>::infinity();
    }
  }
  return scores;
}

/// Fills x of every id that can be chosen, ids ascending.
void gather(std::span<const float> scores, float best, double temperature, std::vector<Candidate>& candidates) {
  const auto inverse = static_cast<float>(1.0 / temperature);
  candidates.resize(scores.size());
  size_t count = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    candidates[count] = {static_cast<TokenId>(i), (scores[i] - best) * inverse, 1.0F};
    count += candidates[count].x >= std::numeric_limits<float>::lowest() ? 1 : 0;  // neither NaN nor -inf
  }
  candidates.resize(count);
}

/// The `count` likeliest in front. By score, since x may round two scores to one.
void sort_likeliest(std::span<const float> scores, std::vector<Candidate>& candidates, size_t count) {
  const auto likelier = [scores](const Candidate& a, const Candidate& b) {
    const float left = scores[static_cast<size_t>(a.id)];
    const float right = scores[static_cast<size_t>(b.id)];
    return left != right ? left > right : a.id < b.id;
  };
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count), candidates.end(), likelier);
}

/// Classes of x, best first, so that only the class in which a limit falls must be sorted: 1/32 wide, the last one open.
constexpr int kClasses = 1024;
int class_of(float x) {
  constexpr float kScale = 32.0F;
  return x > -(kClasses - 1) / kScale ? static_cast<int>(-x * kScale) : kClasses - 1;
}

/// Keeps the shortest best-first run of candidates whose weights sum to at least `target`. Their order does not depend on the others.
void keep_best(std::span<const float> scores, double target, std::vector<Candidate>& candidates, std::vector<Candidate>& edge) {
  std::array<double, kClasses> sums{};
  for (const Candidate& candidate : candidates) sums[static_cast<size_t>(class_of(candidate.x))] += static_cast<double>(candidate.weight);
  double sum = 0;
  int last = 0;
  while (last < kClasses && sum + sums[static_cast<size_t>(last)] < target) sum += sums[static_cast<size_t>(last++)];
  if (last == kClasses) return;

  edge.clear();
  size_t kept = 0;
  for (const Candidate& candidate : candidates) {
    const int c = class_of(candidate.x);
    if (c < last) candidates[kept++] = candidate;
    if (c == last) edge.push_back(candidate);
  }
  candidates.resize(kept);
  sort_likeliest(scores, edge, edge.size());
  for (const Candidate& candidate : edge) {
    if (sum >= target) break;
    candidates.push_back(candidate);
    sum += static_cast<double>(candidate.weight);
  }
}

double total_weight(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += static_cast<double>(candidate.weight);
  return total;
}

TokenId draw(const std::vector<Candidate>& candidates, double u) {
  const double target = u * total_weight(candidates);
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += static_cast<double>(candidate.weight);
    if (sum > target) return candidate.id;
  }
  return candidates.front().id;  // unreachable: u < 1
}

}  // namespace

SamplerScratch::SamplerScratch(int64_t vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  scores.reserve(size), candidates.reserve(size), edge.reserve(size);
}

Result<TokenId> sample(const kernels::Kernels& kernels, std::span<const float> logits, const SampleContext& context,
                       SamplerScratch& scratch) {
  const SamplingParams& params = context.params;
  const std::span<const float> scores = adjusted(logits, context, scratch.scores);
  const int64_t top = kernels.argmax(scores);
  const float best = top < 0 ? -std::numeric_limits<float>::infinity() : scores[static_cast<size_t>(top)];
  if (best == -std::numeric_limits<float>::infinity())
    return error("no token can be chosen: all ", logits.size(), " logits are NaN or -inf");
  if (is_greedy(params) || std::isinf(best)) return checked_cast<TokenId>(top);

  std::vector<Candidate>& candidates = scratch.candidates;
  gather(scores, best, params.temperature, candidates);
  // Also when there are just top_k, so that their order is that in a row with more.
  if (params.top_k > 0 && params.top_k <= std::ssize(candidates)) keep_best(scores, params.top_k, candidates, scratch.edge);
  for (Candidate& candidate : candidates) candidate.weight = std::exp(candidate.x);
  if (params.top_p < 1.0) keep_best(scores, params.top_p * total_weight(candidates), candidates, scratch.edge);
  if (params.min_p > 0) std::erase_if(candidates, [&](const Candidate& c) { return static_cast<double>(c.weight) < params.min_p; });
  LAMINA_CHECK(params.seed.has_value(), "sampling without a seed");
  return draw(candidates, uniform(*params.seed, static_cast<uint64_t>(params.choice),
                                  static_cast<uint64_t>(std::ssize(context.history) - context.prompt_tokens)));
}

int looked_at(const SamplingParams& params) {
  if (always_changes_logits(params) || params.min_new_tokens > 0 || params.top_logprobs >= 0) return 0;
  return is_greedy(params) ? 1 : std::max(params.top_k, 0);
}

TokenLogprob logprob_of(const kernels::Kernels& kernels, std::span<const float> logits, TokenId token, int top, SamplerScratch& scratch) {
  const double sum = kernels.log_sum_exp(logits);
  const auto logprob = [&](TokenId id) { return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - sum); };
  TokenLogprob out{token, logprob(token), {}};
  if (top <= 0) return out;
  std::vector<Candidate>& candidates = scratch.candidates;
  gather(logits, 0.0F, 1.0, candidates);
  const size_t count = std::min(static_cast<size_t>(top), candidates.size());
  sort_likeliest(logits, candidates, count);
  for (size_t i = 0; i < count; ++i) out.top.push_back({candidates[i].id, logprob(candidates[i].id)});
  return out;
}

}  // namespace lamina
