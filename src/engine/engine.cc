#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "api/sampling.h"
#include "base/clock.h"
#include "base/strings.h"

namespace lamina {
namespace {

/// How often an idle engine of several ranks looks whether they live.
constexpr auto kFaultPoll = std::chrono::milliseconds(100);

std::unique_ptr<StepExecutor> make_executor(RankSet& set, const EngineOptions& options) {
  if (set.world) {
    return make_process_executor(options.topology, set.ranks.front(), *set.world, *set.fault, std::chrono::seconds(options.dist_timeout));
  }
  if (set.ranks.size() > 1) return make_thread_executor(options.topology, set.ranks, *set.fault);
  return make_inline_executor(*set.ranks.front().runner);
}

int plans_in_flight(const StepExecutor& executor, const EngineOptions& options) {
  return options.max_micro_batches > 0 ? std::min(options.max_micro_batches, executor.depth()) : executor.depth();
}

SchedulerConfig scheduler_config(const LoadedModel& loaded, const EngineOptions& options, int plans) {
  const CausalLM& model = loaded.set.ranks.front().runner->model();
  SchedulerConfig config;
  config.kv = {loaded.info.memory.pages, loaded.info.memory.page_size};
  config.dp_ranks = options.topology.dp_attention;
  config.plans_in_flight = plans;
  config.max_running_requests = options.max_running_requests;
  config.chunked_prefill_size = options.chunked_prefill_size;
  config.context_length = loaded.info.context_length;
  config.rope_rule = model.rope_rule();
  config.rope_original_length = model.rope_threshold();
  config.eos_token_ids = loaded.eos_token_ids;
  config.prefix_cache = !options.disable_radix_cache;
  config.policy = options.schedule_policy == "lpm" ? SchedulePolicy::kLpm : SchedulePolicy::kFcfs;
  config.max_queued_requests = options.max_queued_requests;
  config.mixed_prefill_size = options.mixed_prefill_size;
  config.new_token_ratio = std::min(config.new_token_ratio * options.schedule_conservativeness, 1.0);
  config.min_new_token_ratio = std::min(config.min_new_token_ratio, config.new_token_ratio);
  return config;
}

}  // namespace

RequestStream::~RequestStream() {
  if (!finished_) engine_.cancel(id_);
}

std::optional<EngineEvent> RequestStream::take() {
  EngineEvent event = std::move(mailbox_->events.front());
  mailbox_->events.pop_front();
  finished_ = event.finish != FinishReason::kNone;
  return event;
}

std::optional<EngineEvent> RequestStream::next() {
  if (finished_) return std::nullopt;
  std::unique_lock lock(mailbox_->mutex);
  mailbox_->ready.wait(lock, [&] { return !mailbox_->events.empty(); });
  return take();
}

std::optional<EngineEvent> RequestStream::try_next() {
  const std::lock_guard lock(mailbox_->mutex);
  if (mailbox_->events.empty()) return std::nullopt;
  return take();
}

void RequestStream::set_notify(std::function<void()> notify) {
  const std::lock_guard lock(mailbox_->mutex);
  mailbox_->notify = std::move(notify);
  if (!mailbox_->events.empty() && mailbox_->notify) mailbox_->notify();
}

Engine::Engine(LoadedModel loaded, const EngineOptions& options)
    : loaded_(std::move(loaded)),
      executor_(make_executor(loaded_.set, options)),
      depth_(plans_in_flight(*executor_, options)),
      scheduler_(scheduler_config(loaded_, options, depth_)),
      thread_([this] { loop(); }) {}

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options, const LoadProgress& progress) {
  LAMINA_ASSIGN(LoadedModel loaded, load_model(options, progress));
  return std::unique_ptr<Engine>(new Engine(std::move(loaded), options));
}

Status Engine::run_worker(const EngineOptions& options) {
  LAMINA_ASSIGN(LoadedModel loaded, load_model(options, {}));
  RankSet& set = loaded.set;
  const PlacedThread placed(set.ranks.front().team->place());
  return run_process_worker(set.ranks.front(), *set.world, *set.fault);
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<const Tokenizer*> Engine::tokenizer() const {
  if (!loaded_.tokenizer) return error(loaded_.info.model, " has no tokenizer.json: only token ids can be used");
  return &*loaded_.tokenizer;
}

Status Engine::check(const EngineRequest& request) const {
  const int vocab = checked_cast<int>(loaded_.config.vocab_size);
  LAMINA_TRY(validate(request.sampling, vocab));
  if (!request.sampling.stop.empty()) LAMINA_TRY(tokenizer());
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= vocab) return error("prompt token id ", id, " is outside [0, ", vocab, ")");
  }
  return {};
}

Result<std::unique_ptr<RequestStream>> Engine::enqueue(EngineRequest request, bool* queue_full) {
  const int64_t prompt_tokens = static_cast<int64_t>(request.prompt.size());
  if (const std::string why = fault(); !why.empty()) return error("the engine has failed: ", why);
  if (queue_full != nullptr) *queue_full = scheduler_.queue_full();
  const RequestId id(next_id_++);
  LAMINA_TRY(scheduler_.submit({.id = id,
                                .prompt = std::move(request.prompt),
                                .sampling = request.sampling,
                                .all_logits = request.all_logits,
                                .pool = request.pool,
                                .cache_salt = std::move(request.cache_salt)}));
  Live live;
  if (loaded_.tokenizer) live.detokenizer.emplace(*loaded_.tokenizer, request.skip_special);
  live.stops = StopMatcher(std::move(request.sampling.stop));
  ++stats_.requests;
  stats_.prompt_tokens += prompt_tokens;
  const uint64_t seed = scheduler_.sampling(id)->seed.value_or(0);
  std::unique_ptr<RequestStream> stream(new RequestStream(*this, id, seed, live.mailbox));
  live_.emplace(id, std::move(live));
  return stream;
}

Result<std::unique_ptr<RequestStream>> Engine::submit(EngineRequest request, bool* queue_full) {
  LAMINA_TRY(check(request));
  const std::lock_guard lock(mutex_);
  LAMINA_ASSIGN(auto stream, enqueue(std::move(request), queue_full));
  wake_.notify_all();
  return stream;
}

Result<std::vector<std::unique_ptr<RequestStream>>> Engine::submit_together(std::vector<EngineRequest> requests) {
  for (const EngineRequest& request : requests) LAMINA_TRY(check(request));
  std::vector<std::unique_ptr<RequestStream>> streams;  // outlives the lock: a stream that goes cancels its request
  const std::lock_guard lock(mutex_);
  for (EngineRequest& request : requests) {
    LAMINA_ASSIGN(auto stream, enqueue(std::move(request), nullptr));
    streams.push_back(std::move(stream));
  }
  wake_.notify_all();
  return streams;
}

void Engine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  scheduler_.cancel(id);
  wake_.notify_all();
}

EngineStats Engine::stats() {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.running = aborted_ ? 0 : scheduler_.running();
  stats.waiting = aborted_ ? 0 : scheduler_.waiting();
  const KvPages pages = scheduler_.pages();
  stats.pages_total = pages.total;
  stats.pages_free = pages.free;
  stats.pages_cached = pages.cached;
  stats.pages_held = pages.held;
  stats.evicted_tokens = pages.evicted_tokens;
  stats.retracted = scheduler_.retractions();
  return stats;
}

void Engine::count(const RequestEvent& event) {
  if (event.token) ++stats_.generation_tokens;
  if (event.finish == FinishReason::kAbort) ++stats_.aborted;
}

void Engine::loop() {
  const PlacedThread placed(loaded_.set.ranks.front().team->place());  // it computes as rank 0
  std::unique_lock lock(mutex_);
  while (await_work(lock)) {
    submit_plans(lock);
    if (in_flight_ > 0) take_result(lock);
  }
  if (loaded_.set.fault->raised()) abort_all();
}

bool Engine::await_work(std::unique_lock<std::mutex>& lock) {
  const RankFault& fault = *loaded_.set.fault;
  const auto ready = [&] { return stopping_ || fault.raised() || !scheduler_.idle(); };
  if (loaded_.info.topology.world_size() == 1) {
    wake_.wait(lock, ready);
  } else {
    while (!wake_.wait_for(lock, kFaultPoll, ready)) {
    }
  }
  return !stopping_ && !fault.raised();
}

void Engine::submit_plans(std::unique_lock<std::mutex>& lock) {
  while (in_flight_ < depth_) {
    scheduler_.next_step(plan_);
    if (plan_.empty()) return;
    lock.unlock();
    executor_->submit(plan_);
    lock.lock();
    ++in_flight_;
  }
}

void Engine::take_result(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  executor_->wait(result_);
  lock.lock();
  --in_flight_;
  if (!result_.fault.empty()) loaded_.set.fault->raise(result_.fault);
  if (loaded_.set.fault->raised()) return;  // what the step left may be garbage
  scheduler_.complete(result_, events_);
  for (StepOutput& output : result_.outputs) attach(output);
  ++stats_.steps;
  for (const RequestEvent& event : events_) {
    count(event);
    deliver(event);
  }
}

void Engine::abort_all() {
  std::vector<RequestId> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  for (const RequestId id : ids) {
    live_.at(id).next = {};
    const RequestEvent event{.request = id, .finish = FinishReason::kAbort, .error = fault()};
    count(event);
    deliver(event);
  }
  aborted_ = true;
  if (on_fault_) on_fault_();
}

void Engine::set_on_fault(std::function<void()> notify) {
  const std::lock_guard lock(mutex_);
  on_fault_ = std::move(notify);
  if (aborted_ && on_fault_) on_fault_();
}

void Engine::set_taps(const std::function<TapSink*(int rank)>& sink_of) {
  int rank = loaded_.set.first_rank;
  for (RankResources& resources : loaded_.set.ranks) resources.runner->set_taps(sink_of(rank++));
}

void Engine::attach(StepOutput& output) {
  const auto found = live_.find(output.request);
  if (found == live_.end()) return;
  EngineEvent& event = found->second.next;
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(event.prompt_logits, output.prompt_logits);
  append(event.prompt_logprobs, output.prompt_logprobs);
  event.captured.resize(std::max(event.captured.size(), output.captured.size()));
  for (size_t c = 0; c < output.captured.size(); ++c) append(event.captured[c], output.captured[c]);
  if (!output.embedding.empty()) event.embedding = std::move(output.embedding);
  event.logprob = std::move(output.logprob);
}

/// The text that `event` makes final. A stop string ends the request here and in the scheduler, before the next plan.
void Engine::add_text(RequestId id, Live& live, EngineEvent& event) {
  if (!live.detokenizer) return;
  std::string piece;
  const bool ends_by_token = event.finish == FinishReason::kStop;
  if (event.token && !ends_by_token) piece = live.detokenizer->feed(*event.token);
  if (event.finish != FinishReason::kNone) piece += live.detokenizer->flush();
  StopMatcher::Output out = live.stops.feed(piece);
  event.text = std::move(out.text);
  if (out.matched) {
    event.matched_stop = std::move(*out.matched);
    if (event.finish == FinishReason::kNone) scheduler_.finish(id);
    event.finish = FinishReason::kStop;
  } else if (event.finish != FinishReason::kNone) {
    event.text += live.stops.flush();
  }
}

void Engine::deliver(const RequestEvent& happened) {
  const auto found = live_.find(happened.request);
  if (found == live_.end()) return;
  Live& live = found->second;
  EngineEvent event = std::exchange(live.next, {});
  event.at_ns = SteadyClock().now_ns();
  event.token = happened.token;
  event.finish = happened.finish;
  event.error = happened.error;
  event.cached_tokens = checked_cast<int>(happened.cached_tokens);
  add_text(happened.request, live, event);
  const bool last = event.finish != FinishReason::kNone;
  if (last) stats_.cached_tokens += happened.cached_tokens;
  {
    const std::lock_guard lock(live.mailbox->mutex);
    live.mailbox->events.push_back(std::move(event));
    if (live.mailbox->notify) live.mailbox->notify();
  }
  live.mailbox->ready.notify_all();
  if (last) live_.erase(found);
}

bool Engine::flush_cache() {
  const std::lock_guard lock(mutex_);
  return scheduler_.flush_cache();
}

}  // namespace lamina
