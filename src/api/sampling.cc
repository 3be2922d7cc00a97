#include "api/sampling.h"

#include "base/strings.h"

namespace lamina {

namespace {

struct NumberRule {
  const char* name;
  double SamplingParams::* field;
  double low, high;
  bool open_low;
};

constexpr NumberRule kNumberRules[] = {
    {"temperature", &SamplingParams::temperature, 0.0, 100.0, false},
    {"top_p", &SamplingParams::top_p, 0.0, 1.0, true},
    {"min_p", &SamplingParams::min_p, 0.0, 1.0, false},
    {"repetition_penalty", &SamplingParams::repetition_penalty, 0.0, 2.0, true},
    {"presence_penalty", &SamplingParams::presence_penalty, -2.0, 2.0, false},
    {"frequency_penalty", &SamplingParams::frequency_penalty, -2.0, 2.0, false},
};

}  // namespace

Status validate(const SamplingParams& params, int vocab_size) {
  for (const NumberRule& rule : kNumberRules) {
    const double value = params.*rule.field;
    const bool inside = (rule.open_low ? value > rule.low : value >= rule.low) && value <= rule.high;  // false for NaN
    if (!inside) return error(rule.name, " is ", value, ": it must be in ", rule.open_low ? "(" : "[", rule.low, ", ", rule.high, "]");
  }
  if (params.top_k != -1 && params.top_k < 1) return error("top_k is ", params.top_k, ": it must be -1 (whole vocabulary) or at least 1");
  if (params.max_new_tokens < 0) return error("max_new_tokens is ", params.max_new_tokens, ": it must be at least 0");
  if (params.min_new_tokens < 0 || params.min_new_tokens > params.max_new_tokens) {
    return error("min_new_tokens is ", params.min_new_tokens, ": it must be in [0, max_new_tokens], here ", params.max_new_tokens);
  }
  if (params.top_logprobs < -1 || params.top_logprobs > kMaxTopLogprobs) {
    return error("top_logprobs is ", params.top_logprobs, ": it must be in [0, ", kMaxTopLogprobs, "], or -1 for none");
  }
  if (params.prompt_logprobs && params.top_logprobs < 0) return error("prompt_logprobs needs top_logprobs of at least 0");
  for (const TokenId id : params.stop_token_ids)
    if (id < 0 || id >= vocab_size) return error("stop_token_ids holds ", id, ": ids must be in [0, ", vocab_size, ")");
  for (const LogitBias& bias : params.logit_bias) {
    if (bias.token < 0 || bias.token >= vocab_size)
      return error("logit_bias names token ", bias.token, ": ids must be in [0, ", vocab_size, ")");
    if (!(bias.bias >= -100.0F && bias.bias <= 100.0F))
      return error("logit_bias of token ", bias.token, " is ", bias.bias, ": it must be in [-100, 100]");
  }
  return {};
}

}  // namespace lamina
