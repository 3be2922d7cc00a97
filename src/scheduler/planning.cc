// What goes into a plan, and which pages it may use.

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "scheduler/scheduler_impl.h"

namespace lamina {

/// A request whose rope length changes computes everything again with the new one.
void Scheduler::Impl::rebind(LiveRequest& request) {
  const int64_t length = wanted_rope_length(config, request);
  if (length == request.rope_length && request.kv.node != nullptr) return;
  ledger(request).release(request.kv, request.tokens, true);
  request.rope_length = length;
  ledger(request).attach(request.kv, request.cache_key(), request.tokens, request.cache_limit(), true);
}

/// Gives every running request that is not in flight pages for all its tokens, at the cost of those retracted. One stays without when only
/// plans in flight can give some back.
void Scheduler::Impl::cover_running() {
  for (size_t i = 0; i < running.size();) {
    LiveRequest& request = *running[i];
    if (request.in_flight > 0) {
      ++i;
      continue;
    }
    rebind(request);
    if (covered(request))
      ++i;
    else if (!ledger(request).allocate(request.kv, 1) && !retract_one(i))
      ++i;
  }
}

/// Retracts a request of the rank of running[cursor]; false when that one is alone there or all others are in flight. `cursor` keeps naming
/// the same running request, or the next one when that was the victim.
bool Scheduler::Impl::retract_one(size_t& cursor) {
  const int dp_rank = running[cursor]->dp_rank;
  auto victim = running.end();
  int64_t resting = 0;
  for (auto at = running.begin(); at != running.end(); ++at) {
    if ((*at)->dp_rank != dp_rank || (*at)->in_flight > 0) continue;
    ++resting;
    if (victim == running.end() || retracts_before(**at, **victim)) victim = at;
  }
  if (resting == 1) {
    LAMINA_CHECK(running_on(dp_rank) > 1, "the last running request does not fit the pool");
    return false;
  }
  LiveRequest& request = **victim;
  if (victim - running.begin() < static_cast<std::ptrdiff_t>(cursor)) --cursor;
  running.erase(victim);
  ledger(request).release(request.kv, request.tokens, true);
  insert_by_arrival(waiting, &request);
  ++retractions;
  ratio = std::min(1.0, ratio + config.new_token_ratio / 2);
  return true;
}

/// Into `chosen`, by arrival: the rank's decodes of this plan. With several plans in flight each takes an equal share, so that plans of
/// equal size follow each other through the stages; those that were served longest ago come first.
void Scheduler::Impl::choose_decodes(int dp_rank) {
  chosen.clear();
  size_t decoding = 0;
  for (LiveRequest* request : running) {
    if (request->dp_rank != dp_rank || !request->decodes()) continue;
    ++decoding;
    if (request->in_flight == 0 && covered(*request)) chosen.push_back(request);
  }
  const size_t plans = in_flight.size(), share = (decoding + plans - 1) / plans;
  if (chosen.size() <= share) return;
  const auto longer_ago = [](const LiveRequest* a, const LiveRequest* b) {
    return std::tuple(a->last_step, a->arrival) < std::tuple(b->last_step, b->arrival);
  };
  std::nth_element(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(share), chosen.end(), longer_ago);
  chosen.resize(share);
  std::sort(chosen.begin(), chosen.end(), earlier);
}

int Scheduler::Impl::schedule_decodes(StepPlan& plan) {
  for (int dp_rank = 0; dp_rank < config.dp_ranks; ++dp_rank) {
    choose_decodes(dp_rank);
    for (LiveRequest* request : chosen) add_entry(plan, *request, 1);
  }
  return checked_cast<int>(plan.entries.size());
}

/// Prompt tokens of a step that decodes `decodes`. More of them the more prompts could be computed: a small step reads the weights for few
/// rows, and those who wait wait for each other. At least one, so that many decodes never starve a prompt.
int64_t Scheduler::Impl::prompt_budget(int decodes) const {
  int64_t budget = config.chunked_prefill_size - decodes;
  if (decodes > 0 && config.mixed_prefill_size > 0) {
    const auto begun = std::count_if(running.begin(), running.end(),
                                     [](const LiveRequest* request) { return request->in_flight == 0 && !request->decodes(); });
    budget = std::min(budget, config.mixed_prefill_size * (begun + admissible()));
  }
  return std::max<int64_t>(budget, 1);
}

int64_t Scheduler::Impl::schedule_prefills(StepPlan& plan, int64_t budget) {
  for (LiveRequest* request : running) {
    if (budget == 0) break;
    if (request->in_flight > 0 || request->decodes() || !covered(*request)) continue;
    const int64_t count = chunk_tokens(*request, budget);
    add_entry(plan, *request, count);
    budget -= count;
  }
  return budget;
}

void Scheduler::Impl::add_entry(StepPlan& plan, LiveRequest& request, int64_t count) {
  if (!request.announced) plan.admitted.push_back({request.id, request.sampling, request.tokens});
  request.announced = true;
  request.in_flight = count;
  request.last_step = plan.step;

  const int64_t computed = request.kv.computed;
  const int64_t end = computed + count;
  const bool last = end == request.size();
  StepEntry entry;
  entry.request = request.id;
  entry.dp_rank = request.dp_rank;
  entry.token_begin = checked_cast<int32_t>(plan.tokens.size());
  entry.token_count = checked_cast<int32_t>(count);
  entry.page_begin = checked_cast<int32_t>(plan.pages.size());
  entry.page_count = checked_cast<int32_t>(pages_for(end));
  entry.prefix_len = computed;
  entry.rope_length = request.rope_length;
  entry.sample = last && request.sampling.max_new_tokens > 0;
  const bool returns_rows = request.wants_rows() && computed >= request.rows_returned && computed < request.prompt_len;
  entry.all_logits = request.all_logits && returns_rows;
  entry.prompt_logprobs = request.sampling.prompt_logprobs && returns_rows;
  entry.pool = last && request.pool;
  plan.tokens.insert(plan.tokens.end(), request.tokens.begin() + computed, request.tokens.begin() + end);
  plan.pages.insert(plan.pages.end(), request.kv.pages.begin(), request.kv.pages.begin() + entry.page_count);
  plan.entries.push_back(entry);
  next_plan().flights.push_back({&request, entry.token_count, entry.sample, returns_rows});
}

/// The reserve shrinks with each step while decoding goes well.
void Scheduler::Impl::shrink_ratio() {
  if (running.empty()) return;
  const double step_down = (config.new_token_ratio - config.min_new_token_ratio) / config.new_token_ratio_decay_steps;
  ratio = std::max(ratio - step_down, std::min(config.min_new_token_ratio, config.new_token_ratio));
}

}  // namespace lamina
