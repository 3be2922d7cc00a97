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
  for (const TokenId id : params.stop_token_ids)
    if (id < 0 || id >= vocab_size) return error("stop_token_ids holds ", id, ": ids must be in [0, ", vocab_size, ")");
  return {};
}

}  // namespace lamina
