#include "scheduler/scheduler.h"

#include <deque>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "scheduler/request.h"

namespace lamina {

struct Scheduler::Impl {
  /// What complete() must know of an entry of the plan in flight.
  struct Flight {
    LiveRequest* request;
    int32_t token_count;
    bool sample, all_logits;
  };

  explicit Impl(SchedulerConfig c) : config(std::move(c)), pool(config.kv.pages) {
    LAMINA_CHECK(config.kv.pages >= 1 && config.kv.page_size >= 1, "a KV pool without room for a token");
    LAMINA_CHECK(config.max_running_requests >= 1 && config.chunked_prefill_size >= 1, "a scheduler that can run nothing");
  }

  int64_t pages_for(int64_t tokens) const { return (tokens + config.kv.page_size - 1) / config.kv.page_size; }
  bool covered(const LiveRequest& request) const { return pages_for(request.size()) <= static_cast<int64_t>(request.pages.size()); }

  void cover_running();
  void retract_one(size_t& cursor);
  int schedule_decodes(StepPlan& plan);
  int64_t schedule_prefills(StepPlan& plan, int64_t budget);
  void admit_waiting(StepPlan& plan, int64_t budget);
  bool fits_now(const LiveRequest& request) const;
  void start(LiveRequest& request);
  void add_entry(StepPlan& plan, LiveRequest& request, int64_t count);
  RequestEvent advance(const Flight& flight, const StepOutput& output);
  void retire(LiveRequest& request);

  SchedulerConfig config;
  PagePool pool;
  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> live;
  std::deque<LiveRequest*> waiting;   // by arrival
  std::vector<LiveRequest*> running;  // by arrival
  std::vector<Flight> flights;
  std::vector<RequestId> released;  // to be told with the next plan
  std::vector<RequestId> aborted;   // to be reported by the next complete()
  bool in_flight = false;
  int64_t step = 0, arrivals = 0, retractions = 0;
};

namespace {

bool earlier(const LiveRequest* a, const LiveRequest* b) { return a->arrival < b->arrival; }

template <class Queue>
void insert_by_arrival(Queue& queue, LiveRequest* request) {
  queue.insert(std::upper_bound(queue.begin(), queue.end(), request, earlier), request);
}

}  // namespace

/// Gives every running request pages for all its tokens, at the cost of those retracted.
void Scheduler::Impl::cover_running() {
  for (size_t i = 0; i < running.size();) {
    bind_rope_length(config, *running[i]);
    if (covered(*running[i]))
      ++i;
    else if (!pool.allocate(1, running[i]->pages))
      retract_one(i);
  }
}

/// `cursor` keeps naming the same running request, or the next one when that was the victim.
void Scheduler::Impl::retract_one(size_t& cursor) {
  LAMINA_CHECK(running.size() > 1, "the last running request does not fit the pool");
  const auto victim = std::min_element(running.begin(), running.end(), [](auto* a, auto* b) { return retracts_before(*a, *b); });
  LiveRequest& request = **victim;
  if (victim - running.begin() < static_cast<std::ptrdiff_t>(cursor)) --cursor;
  running.erase(victim);
  pool.release(request.pages);
  request.pages.clear();
  request.computed = 0;
  insert_by_arrival(waiting, &request);
  ++retractions;
}

int Scheduler::Impl::schedule_decodes(StepPlan& plan) {
  int decodes = 0;
  for (LiveRequest* request : running) {
    if (request->remaining() != 1) continue;
    add_entry(plan, *request, 1);
    ++decodes;
  }
  return decodes;
}

int64_t Scheduler::Impl::schedule_prefills(StepPlan& plan, int64_t budget) {
  for (LiveRequest* request : running) {
    if (budget == 0) break;
    if (request->remaining() == 1) continue;
    const int64_t count = chunk_tokens(*request, budget);
    add_entry(plan, *request, count);
    budget -= count;
  }
  return budget;
}

void Scheduler::Impl::admit_waiting(StepPlan& plan, int64_t budget) {
  while (budget > 0 && !waiting.empty() && std::ssize(running) < config.max_running_requests && fits_now(*waiting.front())) {
    LiveRequest& request = *waiting.front();
    waiting.pop_front();
    start(request);
    const int64_t count = chunk_tokens(request, budget);
    add_entry(plan, request, count);
    budget -= count;
  }
}

/// One page of margin for each running request keeps one that was just retracted from coming straight back.
bool Scheduler::Impl::fits_now(const LiveRequest& request) const {
  const int64_t next_token = request.sampling.max_new_tokens > 0 ? 1 : 0;
  return pages_for(request.size() + next_token) + std::ssize(running) <= pool.free_pages();
}

void Scheduler::Impl::start(LiveRequest& request) {
  // Reserved here, once, so that decoding allocates nothing.
  request.tokens.reserve(static_cast<size_t>(request.prompt_len + request.sampling.max_new_tokens));
  request.pages.reserve(static_cast<size_t>(pages_for(request.prompt_len + request.sampling.max_new_tokens)));
  LAMINA_CHECK(pool.allocate(checked_cast<int32_t>(pages_for(request.size())), request.pages), "admitted without pages");
  bind_rope_length(config, request);
  insert_by_arrival(running, &request);
}

void Scheduler::Impl::add_entry(StepPlan& plan, LiveRequest& request, int64_t count) {
  if (!request.announced) plan.admitted.push_back({request.id, request.sampling, request.tokens});
  request.announced = true;
  request.in_flight = true;

  const int64_t end = request.computed + count;
  const bool last = end == request.size();
  StepEntry entry;
  entry.request = request.id;
  entry.token_begin = checked_cast<int32_t>(plan.tokens.size());
  entry.token_count = checked_cast<int32_t>(count);
  entry.page_begin = checked_cast<int32_t>(plan.pages.size());
  entry.page_count = checked_cast<int32_t>(pages_for(end));
  entry.prefix_len = request.computed;
  entry.rope_length = request.rope_length;
  entry.sample = last && request.sampling.max_new_tokens > 0;
  entry.all_logits = request.all_logits && request.computed >= request.logits_returned && request.computed < request.prompt_len;
  entry.pool = last && request.pool;
  plan.tokens.insert(plan.tokens.end(), request.tokens.begin() + request.computed, request.tokens.begin() + end);
  plan.pages.insert(plan.pages.end(), request.pages.begin(), request.pages.begin() + entry.page_count);
  plan.entries.push_back(entry);
  flights.push_back({&request, entry.token_count, entry.sample, entry.all_logits});
}

/// Books what the runner computed; the event is empty when a chunk ended inside the prompt.
RequestEvent Scheduler::Impl::advance(const Flight& flight, const StepOutput& output) {
  LiveRequest& request = *flight.request;
  LAMINA_CHECK(output.request == request.id, "a result out of the plan's order");
  request.in_flight = false;
  request.computed += flight.token_count;
  if (flight.all_logits) request.logits_returned = request.computed;

  RequestEvent event;
  event.request = request.id;
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

/// Forgets a request wherever it is.
void Scheduler::Impl::retire(LiveRequest& request) {
  pool.release(request.pages);
  std::erase(running, &request);
  std::erase(waiting, &request);
  released.push_back(request.id);
  live.erase(request.id);
}

Scheduler::Scheduler(SchedulerConfig config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Scheduler::~Scheduler() = default;

Status Scheduler::submit(SchedulerRequest request) {
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
  if (request.in_flight) {
    request.cancelled = true;
    return;
  }
  impl_->aborted.push_back(id);
  impl_->retire(request);
}

bool Scheduler::idle() const { return impl_->live.empty() && impl_->released.empty() && !impl_->in_flight; }

void Scheduler::next_step(StepPlan& plan) {
  LAMINA_CHECK(!impl_->in_flight, "a plan is in flight already");
  plan.clear();
  plan.released.assign(impl_->released.begin(), impl_->released.end());
  impl_->released.clear();
  impl_->flights.clear();

  impl_->cover_running();
  const int64_t decodes = impl_->schedule_decodes(plan);
  // At least one prompt token a step, so that many decodes never starve a prompt.
  const int64_t budget = std::max<int64_t>(impl_->config.chunked_prefill_size - decodes, 1);
  impl_->admit_waiting(plan, impl_->schedule_prefills(plan, budget));
  if (plan.empty()) return;
  plan.step = ++impl_->step;
  impl_->in_flight = true;
}

void Scheduler::complete(const StepResult& result, std::vector<RequestEvent>& events) {
  LAMINA_CHECK(impl_->in_flight && result.step == impl_->step, "the result of another step");
  LAMINA_CHECK(result.outputs.size() == impl_->flights.size(), "a result of another size than its plan");
  events.clear();
  impl_->in_flight = false;
  for (size_t i = 0; i < impl_->flights.size(); ++i) {
    RequestEvent event = impl_->advance(impl_->flights[i], result.outputs[i]);
    if (event.finish != FinishReason::kNone) impl_->retire(*impl_->flights[i].request);
    if (event.token || event.finish != FinishReason::kNone) events.push_back(std::move(event));
  }
  impl_->flights.clear();
  for (const RequestId id : impl_->aborted) {
    events.emplace_back();
    events.back().request = id;
    events.back().finish = FinishReason::kAbort;
  }
  impl_->aborted.clear();
}

const std::vector<TokenId>* Scheduler::tokens(RequestId id) const {
  const auto found = impl_->live.find(id);
  return found == impl_->live.end() ? nullptr : &found->second->tokens;
}

const SamplingParams* Scheduler::sampling(RequestId id) const {
  const auto found = impl_->live.find(id);
  return found == impl_->live.end() ? nullptr : &found->second->sampling;
}

const PagePool& Scheduler::pool() const { return impl_->pool; }
int Scheduler::running() const { return checked_cast<int>(impl_->running.size()); }
int Scheduler::waiting() const { return checked_cast<int>(impl_->waiting.size()); }
int64_t Scheduler::retractions() const { return impl_->retractions; }

}  // namespace lamina
