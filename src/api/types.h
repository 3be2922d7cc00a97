#pragma once
// Values that every side of the engine shares.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lamina {

/// A row of the embedding; an index into the vocabulary. Plain int32 in bulk arrays (`std::vector<TokenId>` is the kernels' input).
using TokenId = int32_t;

struct LogitBias {
  TokenId token = 0;
  float bias = 0;  // added to the logit; [-100, 100]
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

struct SamplingParams {
  int max_new_tokens = 128;
  int min_new_tokens = 0;           // EOS and stop tokens cannot be chosen before so many outputs
  double temperature = 1.0;         // < 1e-6 means greedy: the argmax, lowest id on ties
  double top_p = 1.0;               // (0, 1]
  int top_k = -1;                   // -1: the whole vocabulary
  double min_p = 0.0;               // [0, 1]
  double repetition_penalty = 1.0;  // (0, 2]; over prompt and output, as Hugging Face
  double presence_penalty = 0.0;    // [-2, 2]; subtracted once from every id that occurs in the output, as OpenAI
  double frequency_penalty = 0.0;   // [-2, 2]; subtracted for each occurrence in the output
  std::vector<LogitBias> logit_bias;
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;  // besides the model's EOS
  std::vector<std::string> stop;        // strings that end the text; they are not part of it
  std::optional<uint64_t> seed;         // none: a fresh one is drawn and returned
  int choice = 0;                       // which of n answers to one prompt: its own stream of random numbers
  int top_logprobs = -1;                // -1: none; n >= 0: each output token's logprob and those of the n likeliest
  bool prompt_logprobs = false;         // the same for the prompt's tokens (needs top_logprobs >= 0)
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

/// log softmax of the model's logits before penalties, bias and temperature.
struct TokenLogprob {
  struct Alternative {
    TokenId token = 0;
    float logprob = 0;
    friend bool operator==(const Alternative&, const Alternative&) = default;
  };
  TokenId token = 0;
  float logprob = 0;
  std::vector<Alternative> top;  // likeliest first, lowest id on ties
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
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
