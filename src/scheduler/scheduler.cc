#include "scheduler/scheduler.h"

#include <deque>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "scheduler/request.h"

namespace lamina {

struct Scheduler::Impl {
  /// What complete() must know of an entry of the plan in flight.
  struct Flight {
    LiveRequest* request;
    int32_t token_count;
    bool sample, returns_rows;
  };

  explicit Impl(SchedulerConfig c) : config(std::move(c)), ledger(config.kv, config.prefix_cache), ratio(config.new_token_ratio) {
    LAMINA_CHECK(config.kv.pages >= 1 && config.kv.page_size >= 1, "a KV pool without room for a token");
    LAMINA_CHECK(config.max_running_requests >= 1 && config.chunked_prefill_size >= 1, "a scheduler that can run nothing");
  }

  int64_t pages_for(int64_t tokens) const { return ledger.pages_for(tokens); }
  bool covered(const LiveRequest& request) const { return pages_for(request.size()) <= std::ssize(request.kv.pages); }

  void rebind(LiveRequest& request);
  void cover_running();
  void retract_one(size_t& cursor);
  int schedule_decodes(StepPlan& plan);
  int64_t schedule_prefills(StepPlan& plan, int64_t budget);
  void admit_waiting(StepPlan& plan, int64_t budget);
  size_t next_waiting() const;
  bool start(StepPlan& plan, LiveRequest& request);
  bool fits_now(const LiveRequest& request) const;
  int64_t reserved_tokens(const LiveRequest& request) const;
  void settle_ratio();
  void add_entry(StepPlan& plan, LiveRequest& request, int64_t count);
  RequestEvent advance(const Flight& flight, const StepOutput& output);
  void retire(LiveRequest& request, bool keep);

  SchedulerConfig config;
  KvLedger ledger;
  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> live;
  std::deque<LiveRequest*> waiting;   // by arrival
  std::vector<LiveRequest*> running;  // by arrival
  std::vector<Flight> flights;
  std::vector<RequestId> released;  // to be told with the next plan
  std::vector<RequestId> aborted;   // to be reported by the next complete()
  bool in_flight = false;
  int64_t step = 0, arrivals = 0, retractions = 0;
  double ratio;  // between min_new_token_ratio and 1
};

namespace {

bool earlier(const LiveRequest* a, const LiveRequest* b) { return a->arrival < b->arrival; }

template <class Queue>
void insert_by_arrival(Queue& queue, LiveRequest* request) {
  queue.insert(std::upper_bound(queue.begin(), queue.end(), request, earlier), request);
}

}  // namespace

/// A request whose rope length changes computes everything again with the new one.
void Scheduler::Impl::rebind(LiveRequest& request) {
  const int64_t length = wanted_rope_length(config, request);
  if (length == request.rope_length && request.kv.node != nullptr) return;
  ledger.release(request.kv, request.tokens, true);
  request.rope_length = length;
  ledger.attach(request.kv, request.cache_key(), request.tokens, request.cache_limit(), true);
}

/// Gives every running request pages for all its tokens, at the cost of those retracted.
void Scheduler::Impl::cover_running() {
  for (size_t i = 0; i < running.size();) {
    rebind(*running[i]);
    if (covered(*running[i]))
      ++i;
    else if (!ledger.allocate(running[i]->kv, 1))
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
  ledger.release(request.kv, request.tokens, true);
  insert_by_arrival(waiting, &request);
  ++retractions;
  ratio = std::min(1.0, ratio + config.new_token_ratio / 2);
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

/// Whose turn it is, as an index into `waiting`, which is not empty.
size_t Scheduler::Impl::next_waiting() const {
  if (config.policy == SchedulePolicy::kFcfs || std::ssize(waiting) > kLpmQueueLimit || waiting.front()->passed_over >= kMaxPassedOver)
    return 0;
  size_t best = 0;
  int64_t longest = -1;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const LiveRequest& request = *waiting[i];
    const CacheKey key{wanted_rope_length(config, request), request.cache_salt};
    const auto readable = static_cast<size_t>(std::max<int64_t>(request.cache_limit(), 0));
    const int64_t cached = ledger.match_length(key, std::span(request.tokens).first(readable));
    if (cached > longest) longest = cached, best = i;
  }
  return best;
}

void Scheduler::Impl::admit_waiting(StepPlan& plan, int64_t budget) {
  while (budget > 0 && !waiting.empty() && std::ssize(running) < config.max_running_requests) {
    const size_t turn = next_waiting();
    LiveRequest& request = *waiting[turn];
    if (!start(plan, request)) return;
    for (size_t i = 0; i < turn; ++i) ++waiting[i]->passed_over;
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(turn));
    const int64_t count = chunk_tokens(request, budget);
    add_entry(plan, request, count);
    budget -= count;
  }
}

/// Outputs that the request may still produce, as far as admission reserves for them.
int64_t Scheduler::Impl::reserved_tokens(const LiveRequest& request) const {
  constexpr int64_t kClip = 4096;  // nobody is made to wait for outputs that rarely come
  const int64_t left = std::min(request.sampling.max_new_tokens - request.outputs(), kClip);
  return static_cast<int64_t>(static_cast<double>(std::max<int64_t>(left, 0)) * ratio);
}

/// One page of margin for each running request keeps one that was just retracted from coming straight back. Alone, a request needs no
/// reserve.
bool Scheduler::Impl::fits_now(const LiveRequest& request) const {
  const int64_t next_token = request.sampling.max_new_tokens > 0 ? 1 : 0;
  const int64_t own = pages_for(request.size() + next_token) - request.kv.shared;
  if (own + std::ssize(running) > ledger.obtainable()) return false;
  if (running.empty()) return true;
  int64_t reserve = reserved_tokens(request);
  for (const LiveRequest* other : running) reserve += reserved_tokens(*other);
  return own * config.kv.page_size + reserve <= ledger.obtainable() * config.kv.page_size;
}

bool Scheduler::Impl::start(StepPlan& plan, LiveRequest& request) {
  request.rope_length = wanted_rope_length(config, request);
  PageCopy copy = ledger.attach(request.kv, request.cache_key(), request.tokens, request.cache_limit(), false);
  if (!fits_now(request)) {
    ledger.release(request.kv, request.tokens, false);
    return false;
  }
  if (!request.announced) {
    // Reserved here, once, so that decoding allocates nothing.
    request.tokens.reserve(static_cast<size_t>(request.prompt_len + request.sampling.max_new_tokens));
    request.kv.pages.reserve(static_cast<size_t>(pages_for(request.prompt_len + request.sampling.max_new_tokens)));
    request.cached_tokens = request.kv.computed;
  }
  LAMINA_CHECK(ledger.allocate(request.kv, pages_for(request.size()) - request.kv.shared), "admitted without pages");
  if (copy.tokens > 0) {
    copy.to = request.kv.pages[static_cast<size_t>(request.kv.shared)];
    if (copy.to != copy.from) plan.copies.push_back(copy);
  }
  insert_by_arrival(running, &request);
  return true;
}

/// The reserve shrinks while decoding goes well and is whole again when nothing runs.
void Scheduler::Impl::settle_ratio() {
  if (running.empty() && waiting.empty()) ratio = config.new_token_ratio;
  const double step_down = (config.new_token_ratio - config.min_new_token_ratio) / config.new_token_ratio_decay_steps;
  if (!running.empty()) ratio = std::max(ratio - step_down, std::min(config.min_new_token_ratio, config.new_token_ratio));
}

void Scheduler::Impl::add_entry(StepPlan& plan, LiveRequest& request, int64_t count) {
  if (!request.announced) plan.admitted.push_back({request.id, request.sampling, request.tokens});
  request.announced = true;
  request.in_flight = true;

  const int64_t computed = request.kv.computed;
  const int64_t end = computed + count;
  const bool last = end == request.size();
  StepEntry entry;
  entry.request = request.id;
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
  flights.push_back({&request, entry.token_count, entry.sample, returns_rows});
}

/// Books what the runner computed; the event is empty when a chunk ended inside the prompt.
RequestEvent Scheduler::Impl::advance(const Flight& flight, const StepOutput& output) {
  LiveRequest& request = *flight.request;
  LAMINA_CHECK(output.request == request.id, "a result out of the plan's order");
  request.in_flight = false;
  request.kv.computed += flight.token_count;
  if (flight.returns_rows) request.rows_returned = request.kv.computed;
  if (flight.token_count > 1) ledger.share(request.kv, request.tokens);

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
  ledger.release(request.kv, request.tokens, keep);
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
  if (request.in_flight) {
    request.cancelled = true;
    return;
  }
  impl_->aborted.push_back(id);
  impl_->retire(request, true);
}

void Scheduler::finish(RequestId id) {
  const auto found = impl_->live.find(id);
  if (found == impl_->live.end()) return;
  LAMINA_CHECK(!found->second->in_flight, "a request was finished while in flight");
  impl_->retire(*found->second, true);
}

bool Scheduler::flush_cache() {
  if (!impl_->live.empty()) return false;
  impl_->ledger.flush();
  return true;
}

bool Scheduler::queue_full() const {
  const int limit = impl_->config.max_queued_requests;
  return limit > 0 && waiting() >= limit;
}

bool Scheduler::idle() const { return impl_->live.empty() && impl_->released.empty() && !impl_->in_flight; }

void Scheduler::next_step(StepPlan& plan) {
  LAMINA_CHECK(!impl_->in_flight, "a plan is in flight already");
  plan.clear();
  plan.pages.reserve(static_cast<size_t>(impl_->config.kv.pages));  // once: page tables grow from step to step
  plan.released.assign(impl_->released.begin(), impl_->released.end());
  impl_->released.clear();
  impl_->flights.clear();

  impl_->settle_ratio();
  impl_->cover_running();
  const int64_t decodes = impl_->schedule_decodes(plan);
  // At least one prompt token a step, so that many decodes never starve a prompt.
  const SchedulerConfig& config = impl_->config;
  const bool mixed = decodes > 0 && config.mixed_prefill_size > 0;
  const int64_t left = config.chunked_prefill_size - decodes;
  const int64_t prompts = mixed ? std::min<int64_t>(config.mixed_prefill_size, left) : left;
  const int64_t budget = std::max<int64_t>(prompts, 1);
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
    if (event.finish != FinishReason::kNone) impl_->retire(*impl_->flights[i].request, event.error.empty());
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

const KvLedger& Scheduler::ledger() const { return impl_->ledger; }
int64_t Scheduler::held_pages() const {
  int64_t held = 0;
  for (const LiveRequest* request : impl_->running) held += std::ssize(request->kv.pages) - request->kv.shared;
  return held;
}
double Scheduler::new_token_ratio() const { return impl_->ratio; }
int Scheduler::running() const { return checked_cast<int>(impl_->running.size()); }
int Scheduler::waiting() const { return checked_cast<int>(impl_->waiting.size()); }
int64_t Scheduler::retractions() const { return impl_->retractions; }

}  // namespace lamina
