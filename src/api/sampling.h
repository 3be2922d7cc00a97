#pragma once
// What a request may ask of the sampler.

#include "api/types.h"
#include "base/result.h"

namespace lamina {

inline constexpr int kMaxTopLogprobs = 1000;

/// Checks every field against its range; the error names the field, its value and the range. Token ids must be below `vocab_size`.
Status validate(const SamplingParams& params, int vocab_size);

/// Whether the parameters ask for the argmax.
inline bool is_greedy(const SamplingParams& params) { return params.temperature < 1e-6; }

}  // namespace lamina
