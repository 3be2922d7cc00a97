#include "scheduler/scheduler.h"

#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/scheduler_impl.h"

namespace lamina {

Scheduler::Impl::Impl(SchedulerConfig c) : config(std::move(c)), ratio(config.new_token_ratio) {
  LAMINA_CHECK(config.kv.pages >= 1 && config.kv.page_size >= 1, "a KV pool without room for a token");
  LAMINA_CHECK(config.max_running_requests >= 1 && config.chunked_prefill_size >= 1, "a scheduler that can run nothing");
  LAMINA_CHECK(config.dp_ranks >= 1 && config.plans_in_flight >= 1, "a scheduler without ranks");
  for (int rank = 0; rank < config.dp_ranks; ++rank) ledgers.emplace_back(config.kv, config.prefix_cache);
  in_flight.resize(static_cast<size_t>(config.plans_in_flight));
  chosen.reserve(static_cast<size_t>(config.max_running_requests));
}

/// Books what the runner computed; the event is empty when a chunk ended inside the prompt.
RequestEvent Scheduler::Impl::advance(const Flight& flight, const StepOutput& output) {
  LiveRequest& request = *flight.request;
  LAMINA_CHECK(output.request == request.id, "a result out of the plan's order");
  request.in_flight = 0;
  request.kv.computed += flight.token_count;
  ledger(request).copied(request.kv);
  if (flight.returns_rows) request.rows_returned = request.kv.computed;
  if (flight.token_count > 1) ledger(request).share(request.kv, request.tokens);

  RequestEvent event;
  event.request = request.id;
  event.cached_tokens = request.cached_tokens;
  if (request.cancelled || !output.error.empty()) {
    event.finish = FinishReason::kAbort;
    if (!request.cancelled) event.error = output.error;
  } else if (flight.sample) {
    LAMINA_CHECK(output.token.has_value(), "a sampled entry without a token");
    request.tokens.push_back(*output.token);
    event.token = output.token;
    event.finish = finish_of_token(config, request);
  } else if (request.remaining() == 0) {
    event.finish = request.pool ? FinishReason::kStop : FinishReason::kLength;
  }
  return event;
}

/// Forgets a request wherever it is; `keep`: what it computed may serve others.
void Scheduler::Impl::retire(LiveRequest& request, bool keep) {
  ledger(request).release(request.kv, request.tokens, keep);
  std::erase(running, &request);
  std::erase(waiting, &request);
  released.push_back(request.id);
  live.erase(request.id);
}

Scheduler::Scheduler(SchedulerConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Scheduler::~Scheduler() = default;

Status Scheduler::submit(SchedulerRequest request) {
  if (queue_full()) return error("the request queue is full: ", waiting(), " requests wait already");
  LAMINA_ASSIGN(LiveRequest admitted, admit_request(impl_->config, std::move(request)));
  admitted.arrival = impl_->arrivals++;
  auto owned = std::make_unique<LiveRequest>(std::move(admitted));
  LiveRequest* live = owned.get();
  LAMINA_CHECK(impl_->live.emplace(live->id, std::move(owned)).second, "a request id used twice");
  impl_->waiting.push_back(live);
  return {};
}

void Scheduler::cancel(RequestId id) {
  const auto found = impl_->live.find(id);
  if (found == impl_->live.end()) return;
  LiveRequest& request = *found->second;
  if (request.in_flight > 0) {
    request.cancelled = true;
    return;
  }
  impl_->aborted.push_back(id);
  impl_->retire(request, true);
}

void Scheduler::finish(RequestId id) {
  const auto found = impl_->live.find(id);
  if (found == impl_->live.end()) return;
  LAMINA_CHECK(found->second->in_flight == 0, "a request was finished while in flight");
  impl_->retire(*found->second, true);
}

bool Scheduler::flush_cache() {
  if (!impl_->live.empty()) return false;
  for (KvLedger& ledger : impl_->ledgers) ledger.flush();
  return true;
}

bool Scheduler::queue_full() const {
  const int limit = impl_->config.max_queued_requests;
  return limit > 0 && waiting() >= limit;
}

bool Scheduler::idle() const { return impl_->live.empty() && impl_->released.empty() && impl_->plans_out == 0; }

void Scheduler::next_step(StepPlan& plan) {
  Impl& s = *impl_;
  const SchedulerConfig& config = s.config;
  LAMINA_CHECK(s.plans_out < s.in_flight.size(), "as many plans as there may be are in flight already");
  plan.clear();
  plan.step = s.step + 1;
  // Once: page tables grow from step to step.
  plan.pages.reserve(static_cast<size_t>(config.kv.pages) * static_cast<size_t>(config.dp_ranks));
  Impl::PlanInFlight& next = s.next_plan();
  next.flights.clear();

  if (s.running.empty() && s.waiting.empty()) s.ratio = config.new_token_ratio;
  s.cover_running();
  const int decodes = s.schedule_decodes(plan);
  s.admit_waiting(plan, s.schedule_prefills(plan, s.prompt_budget(decodes)));

  // A plan of nothing but ends would take a turn of the pipeline from those with rows.
  if (plan.entries.empty() && s.plans_out > 0) return;
  plan.released.assign(s.released.begin(), s.released.end());
  s.released.clear();
  if (plan.empty()) return;
  s.shrink_ratio();
  next.step = ++s.step;
  ++s.plans_out;
}

void Scheduler::complete(const StepResult& result, std::vector<RequestEvent>& events) {
  Impl& s = *impl_;
  LAMINA_CHECK(s.plans_out > 0 && result.step == s.oldest_plan().step, "the result of another step");
  const std::vector<Impl::Flight>& flights = s.oldest_plan().flights;
  LAMINA_CHECK(result.outputs.size() == flights.size(), "a result of another size than its plan");
  events.clear();
  for (size_t i = 0; i < flights.size(); ++i) {
    RequestEvent event = s.advance(flights[i], result.outputs[i]);
    if (event.finish != FinishReason::kNone) s.retire(*flights[i].request, event.error.empty());
    if (event.token || event.finish != FinishReason::kNone) events.push_back(std::move(event));
  }
  s.first_in_flight = (s.first_in_flight + 1) % s.in_flight.size();
  --s.plans_out;
  for (const RequestId id : s.aborted) {
    events.emplace_back();
    events.back().request = id;
    events.back().finish = FinishReason::kAbort;
  }
  s.aborted.clear();
}

const std::vector<TokenId>* Scheduler::tokens(RequestId id) const {
  const auto found = impl_->live.find(id);
  return found == impl_->live.end() ? nullptr : &found->second->tokens;
}

const SamplingParams* Scheduler::sampling(RequestId id) const {
  const auto found = impl_->live.find(id);
  return found == impl_->live.end() ? nullptr : &found->second->sampling;
}

const KvLedger& Scheduler::ledger(int dp_rank) const { return impl_->ledgers[static_cast<size_t>(dp_rank)]; }

KvPages Scheduler::pages(int dp_rank) const {
  const KvLedger& pool = ledger(dp_rank);
  KvPages pages{.total = pool.pool().capacity(),
                .free = pool.pool().free_pages(),
                .cached = pool.cache().cached_pages(),
                .evicted_tokens = pool.cache().evicted_tokens()};
  for (const LiveRequest* request : impl_->running) {
    if (request->dp_rank == dp_rank) pages.held += std::ssize(request->kv.pages) - request->kv.shared;
  }
  return pages;
}

KvPages Scheduler::pages() const {
  KvPages sum;
  for (int dp_rank = 0; dp_rank < impl_->config.dp_ranks; ++dp_rank) {
    const KvPages of = pages(dp_rank);
    sum.total += of.total, sum.free += of.free, sum.cached += of.cached, sum.held += of.held, sum.evicted_tokens += of.evicted_tokens;
  }
  return sum;
}

double Scheduler::new_token_ratio() const { return impl_->ratio; }
int Scheduler::running() const { return checked_cast<int>(impl_->running.size()); }
int Scheduler::waiting() const { return checked_cast<int>(impl_->waiting.size()); }
int64_t Scheduler::retractions() const { return impl_->retractions; }

}  // namespace lamina
