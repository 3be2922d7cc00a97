// Which waiting request comes next, to which attention-DP rank, and whether it fits there.

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "scheduler/scheduler_impl.h"

namespace lamina {

/// Prompt tokens that one running request weighs as much as when a rank is chosen.
constexpr int64_t kRunningCost = 64;

int64_t Scheduler::Impl::running_on(int dp_rank) const {
  return std::count_if(running.begin(), running.end(), [=](const LiveRequest* request) { return request->dp_rank == dp_rank; });
}

/// Tokens of a waiting request that the rank's cache would spare it.
int64_t Scheduler::Impl::cached_prefix(const LiveRequest& request, int dp_rank) const {
  const CacheKey key{wanted_rope_length(config, request), request.cache_salt};
  const auto readable = static_cast<size_t>(std::max<int64_t>(request.cache_limit(), 0));
  return ledgers[static_cast<size_t>(dp_rank)].match_length(key, std::span(request.tokens).first(readable));
}

/// Whose turn it is, as an index into `waiting`, which is not empty.
size_t Scheduler::Impl::next_waiting() const {
  if (config.policy == SchedulePolicy::kFcfs || std::ssize(waiting) > kLpmQueueLimit || waiting.front()->passed_over >= kMaxPassedOver)
    return 0;
  size_t best = 0;
  int64_t longest = -1;
  for (size_t i = 0; i < waiting.size(); ++i) {
    for (int dp_rank = 0; dp_rank < config.dp_ranks; ++dp_rank) {
      const int64_t cached = cached_prefix(*waiting[i], dp_rank);
      if (cached > longest) longest = cached, best = i;
    }
  }
  return best;
}

/// Waiting requests that could run, as far as seats tell and whether any rank has a page for the first of them.
int64_t Scheduler::Impl::admissible() const {
  if (waiting.empty()) return 0;
  for (int dp_rank = 0; dp_rank < config.dp_ranks; ++dp_rank) {
    if (fits_now(*waiting.front(), dp_rank, 1)) return std::min(std::ssize(waiting), config.max_running_requests - std::ssize(running));
  }
  return 0;
}

void Scheduler::Impl::admit_waiting(StepPlan& plan, int64_t budget) {
  while (budget > 0 && !waiting.empty() && std::ssize(running) < config.max_running_requests) {
    const size_t turn = next_waiting();
    LiveRequest& request = *waiting[turn];
    if (!place(plan, request)) return;
    for (size_t i = 0; i < turn; ++i) ++waiting[i]->passed_over;
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(turn));
    const int64_t count = chunk_tokens(request, budget);
    add_entry(plan, request, count);
    budget -= count;
  }
}

/// Into `placements`, cheapest first: what the request must compute on each rank, and who decodes there already.
void Scheduler::Impl::rank_by_cost(const LiveRequest& request) {
  placements.clear();
  for (int dp_rank = 0; dp_rank < config.dp_ranks; ++dp_rank) {
    Placement at{0, ledgers[static_cast<size_t>(dp_rank)].obtainable(), dp_rank};
    if (config.dp_ranks > 1) at.cost = running_on(dp_rank) * kRunningCost - cached_prefix(request, dp_rank);
    placements.push_back(at);
  }
  std::sort(placements.begin(), placements.end(), [](const Placement& a, const Placement& b) {
    return std::tuple(a.cost, -a.obtainable, a.dp_rank) < std::tuple(b.cost, -b.obtainable, b.dp_rank);
  });
}

/// Binds the request to the cheapest rank that has room.
bool Scheduler::Impl::place(StepPlan& plan, LiveRequest& request) {
  rank_by_cost(request);
  return std::any_of(placements.begin(), placements.end(), [&](const Placement& at) {
    request.dp_rank = at.dp_rank;
    return start(plan, request);
  });
}

/// Outputs that the request may still produce, as far as admission reserves for them.
int64_t Scheduler::Impl::reserved_tokens(const LiveRequest& request) const {
  constexpr int64_t kClip = 4096;  // nobody is made to wait for outputs that rarely come
  const int64_t left = std::min(request.sampling.max_new_tokens - request.outputs(), kClip);
  return static_cast<int64_t>(static_cast<double>(std::max<int64_t>(left, 0)) * ratio);
}

/// Whether the rank has `own_pages` for the request. One page of margin for each request that runs there keeps one that was just retracted
/// from coming straight back. Alone, a request needs no reserve.
bool Scheduler::Impl::fits_now(const LiveRequest& request, int dp_rank, int64_t own_pages) const {
  const int64_t obtainable = ledgers[static_cast<size_t>(dp_rank)].obtainable();
  int64_t others = 0, reserve = reserved_tokens(request);
  for (const LiveRequest* other : running) {
    if (other->dp_rank == dp_rank) ++others, reserve += reserved_tokens(*other);
  }
  if (own_pages + others > obtainable) return false;
  return others == 0 || own_pages * config.kv.page_size + reserve <= obtainable * config.kv.page_size;
}

/// Attaches a waiting request to its rank's pool and lets it run; false when it does not fit. Its first entry is the caller's to add.
bool Scheduler::Impl::start(StepPlan& plan, LiveRequest& request) {
  if (!fits_now(request, request.dp_rank, 1)) return false;  // a full pool is seen without a look into the cache
  KvLedger& pool = ledger(request);
  request.rope_length = wanted_rope_length(config, request);
  PageCopy copy = pool.attach(request.kv, request.cache_key(), request.tokens, request.cache_limit(), false);
  const int64_t own_pages = pages_for(request.size() + (request.sampling.max_new_tokens > 0 ? 1 : 0)) - request.kv.shared;
  bool fits = fits_now(request, request.dp_rank, own_pages);
  if (!fits && copy.tokens > 0) {  // the page to copy from may be the one that is missing
    pool.forgo_copy(request.kv);
    copy.tokens = 0;
    fits = fits_now(request, request.dp_rank, own_pages);
  }
  if (!fits) {
    pool.release(request.kv, request.tokens, false);
    return false;
  }
  if (!request.announced) {
    // Reserved here, once, so that decoding allocates nothing.
    request.tokens.reserve(static_cast<size_t>(request.prompt_len + request.sampling.max_new_tokens));
    request.kv.pages.reserve(static_cast<size_t>(pages_for(request.prompt_len + request.sampling.max_new_tokens)));
    request.cached_tokens = request.kv.computed;
  }
  LAMINA_CHECK(pool.allocate(request.kv, pages_for(request.size()) - request.kv.shared), "admitted without pages");
  if (copy.tokens > 0) {
    copy.to = request.kv.pages[static_cast<size_t>(request.kv.shared)];
    copy.dp_rank = request.dp_rank;
    plan.copies.push_back(copy);
  }
  insert_by_arrival(running, &request);
  return true;
}

}  // namespace lamina
