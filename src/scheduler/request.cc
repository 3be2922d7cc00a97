#include "scheduler/request.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/strings.h"

namespace lamina {

Result<LiveRequest> admit_request(const SchedulerConfig& config, SchedulerRequest request) {
  const auto prompt_len = static_cast<int64_t>(request.prompt.size());
  if (prompt_len == 0) return error("the prompt is empty: at least one token is needed");
  const int64_t wanted = request.pool ? 0 : std::max(request.sampling.max_new_tokens, 0);
  const int64_t least = prompt_len + std::min<int64_t>(wanted, 1);
  const char* one_more = wanted > 0 ? " and at least one more is to be generated" : "";
  const int64_t context = config.context_length > 0 ? config.context_length : std::numeric_limits<int64_t>::max();
  if (least > context) return error("the prompt has ", prompt_len, " tokens", one_more, ": the context length is ", context);
  if (least > config.kv.tokens())
    return error("the prompt has ", prompt_len, " tokens", one_more, ": the whole KV cache holds ", config.kv.tokens());

  LiveRequest live;
  live.id = request.id;
  live.sampling = std::move(request.sampling);
  live.sampling.max_new_tokens = checked_cast<int>(std::min(wanted, std::min(context, config.kv.tokens()) - prompt_len));
  if (!live.sampling.seed) live.sampling.seed = config.draw_seed();
  live.tokens = std::move(request.prompt);
  live.prompt_len = prompt_len;
  live.all_logits = request.all_logits;
  live.pool = request.pool;
  live.cache_salt = std::move(request.cache_salt);
  return live;
}

int64_t wanted_rope_length(const SchedulerConfig& config, const LiveRequest& request) {
  const int64_t original = config.rope_original_length;
  if (config.rope_rule == RopeLengthRule::kAtAdmission) return std::max(request.prompt_len, original);
  if (config.rope_rule == RopeLengthRule::kSwitchAtOriginal) return request.size() > original ? original + 1 : original;
  return 0;
}

int64_t chunk_tokens(const LiveRequest& request, int64_t budget) {
  const int64_t count = std::min(request.remaining(), budget);
  if (!request.wants_rows() || request.kv.computed >= request.rows_returned) return count;
  return std::min(count, request.rows_returned - request.kv.computed);
}

FinishReason finish_of_token(const SchedulerConfig& config, const LiveRequest& request) {
  const TokenId token = request.tokens.back();
  const auto contains = [token](const std::vector<TokenId>& ids) { return std::find(ids.begin(), ids.end(), token) != ids.end(); };
  if (contains(request.sampling.stop_token_ids)) return FinishReason::kStop;
  if (!request.sampling.ignore_eos && contains(config.eos_token_ids)) return FinishReason::kStop;
  return request.outputs() >= request.sampling.max_new_tokens ? FinishReason::kLength : FinishReason::kNone;
}

bool retracts_before(const LiveRequest& a, const LiveRequest& b) {
  return std::tuple(a.outputs(), -a.prompt_len, -a.arrival) < std::tuple(b.outputs(), -b.prompt_len, -b.arrival);
}

}  // namespace lamina
