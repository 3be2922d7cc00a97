#pragma once
// Two engines on the same prompts, position by position: what `lamina verify` shows.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "runner/tap_recorder.h"

namespace lamina {

using Prompts = std::vector<std::vector<TokenId>>;

struct VerifyRequest {
  EngineOptions reference, candidate;
  int new_tokens = 16;                                    // greedy, after each prompt
  std::function<Result<Prompts>(const Engine&)> prompts;  // made once, of the reference
};

/// How far two engines may be apart. Computed and cached in float32 they differ by the order of sums alone: logits by 1e-4 of the largest
/// one. Where matmul inputs or the KV cache are rounded to 16 bits or fewer, a sum that falls on the other side of a rounding moves an
/// input by 2^-8 of it or more: logits by 2^-6 of the largest one.
struct VerifyBounds {
  double logits = 0;    // times the largest logit of the reference
  double residual = 0;  // times the norm of what a boundary reads
};
VerifyBounds verify_bounds(const EngineInfo& info);

struct VerifyReport {
  double max_abs_diff = 0;   // of the prompts' logits
  double largest_logit = 0;  // of the reference, by absolute value
  double tolerance = 0;      // what max_abs_diff may be
  bool argmax_equal = true;  // at every position
  int64_t prompts = 0, positions = 0;
  int64_t new_tokens = 0;                           // of all prompts, by the reference
  int64_t new_tokens_equal = 0;                     // before the first one that differs, summed over the prompts
  double max_logprob_diff = 0;                      // of the chosen tokens up to there; may be twice the tolerance
  std::optional<FirstDifference> first_difference;  // when not ok()

  bool ok() const { return max_abs_diff <= tolerance && max_logprob_diff <= 2 * tolerance; }
};

/// Runs all prompts at once on the one, then on the other; when they are not within the bounds, the worst prompt again, alone, with the
/// boundaries recorded. One engine is in memory at a time. Errors: an engine does not start, or refuses a prompt.
Result<VerifyReport> verify(const VerifyRequest& request);

}  // namespace lamina
