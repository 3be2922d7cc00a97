#pragma once
// Values that every side of the engine shares.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lamina {

/// A row of the embedding; an index into the vocabulary. Plain int32 in bulk arrays (`std::vector<TokenId>` is the kernels' input).
using TokenId = int32_t;

struct SamplingParams {
  int max_new_tokens = 128;
  double temperature = 1.0;         // < 1e-6 means greedy: the argmax, lowest id on ties
  double top_p = 1.0;               // (0, 1]
  int top_k = -1;                   // -1: the whole vocabulary
  double min_p = 0.0;               // [0, 1]
  double repetition_penalty = 1.0;  // (0, 2]; over prompt and output, as Hugging Face
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;  // besides the model's EOS
  std::optional<uint64_t> seed;         // none: a fresh one is drawn and returned
};

/// How length-dependent rope tables bind to a request (numeric contract, rule 10).
enum class RopeLengthRule {
  kNone,             // tables do not depend on length
  kAtAdmission,      // dynamic NTK: the prompt's length, kept while decoding
  kSwitchAtOriginal  // longrope: short tables until the request exceeds the original length, then everything again with the long ones
};

enum class FinishReason { kNone, kStop, kLength, kAbort };
/// "stop", "length", "abort"; "" while running.
const char* finish_reason_name(FinishReason reason);

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;
};

}  // namespace lamina
