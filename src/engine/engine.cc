#include "engine/engine.h"

#include <algorithm>

#include "api/sampling.h"
#include "base/strings.h"

namespace lamina {
namespace {

SchedulerConfig scheduler_config(const LoadedModel& loaded, const EngineOptions& options) {
  const CausalLM& model = loaded.runner->model();
  SchedulerConfig config;
  config.kv = {loaded.info.memory.pages, loaded.info.memory.page_size};
  config.max_running_requests = options.max_running_requests;
  config.chunked_prefill_size = options.chunked_prefill_size;
  config.context_length = loaded.info.context_length;
  config.rope_rule = model.rope_rule();
  config.rope_original_length = model.rope_threshold();
  config.eos_token_ids = loaded.eos_token_ids;
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
    : loaded_(std::move(loaded)), scheduler_(scheduler_config(loaded_, options)), thread_([this] { loop(); }) {}

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options, const LoadProgress& progress) {
  LAMINA_ASSIGN(LoadedModel loaded, load_model(options, progress));
  return std::unique_ptr<Engine>(new Engine(std::move(loaded), options));
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

Result<std::unique_ptr<RequestStream>> Engine::submit(EngineRequest request) {
  const int vocab = checked_cast<int>(loaded_.config.vocab_size);
  LAMINA_TRY(validate(request.sampling, vocab));
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= vocab) return error("prompt token id ", id, " is outside [0, ", vocab, ")");
  }
  const int64_t prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const std::lock_guard lock(mutex_);
  const RequestId id(next_id_++);
  LAMINA_TRY(scheduler_.submit({.id = id,
                                .prompt = std::move(request.prompt),
                                .sampling = request.sampling,
                                .all_logits = request.all_logits,
                                .pool = request.pool}));
  Live live{std::make_shared<RequestStream::Mailbox>(), std::nullopt};
  if (loaded_.tokenizer) live.detokenizer.emplace(*loaded_.tokenizer, request.skip_special);
  ++stats_.requests;
  stats_.prompt_tokens += prompt_tokens;
  const uint64_t seed = scheduler_.sampling(id)->seed.value_or(0);
  std::unique_ptr<RequestStream> stream(new RequestStream(*this, id, seed, live.mailbox));
  live_.emplace(id, std::move(live));
  wake_.notify_all();
  return stream;
}

void Engine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  scheduler_.cancel(id);
  wake_.notify_all();
}

EngineStats Engine::stats() {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.running = scheduler_.running();
  stats.waiting = scheduler_.waiting();
  stats.pages_total = scheduler_.pool().capacity();
  stats.pages_free = scheduler_.pool().free_pages();
  stats.retracted = scheduler_.retractions();
  return stats;
}

void Engine::count(const RequestEvent& event) {
  if (event.token) ++stats_.generation_tokens;
  if (event.finish == FinishReason::kAbort) ++stats_.aborted;
}

void Engine::loop() {
  StepPlan plan;
  StepResult result;
  std::vector<RequestEvent> events;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !scheduler_.idle(); });
    if (stopping_) return;
    scheduler_.next_step(plan);
    if (plan.empty()) continue;
    lock.unlock();
    loaded_.runner->run(plan, result);
    lock.lock();
    scheduler_.complete(result, events);
    for (StepOutput& output : result.outputs) {
      if (!output.prompt_logits.empty() || !output.embedding.empty()) attach(output);
    }
    ++stats_.steps;
    for (const RequestEvent& event : events) {
      count(event);
      deliver(event);
    }
  }
}

void Engine::attach(StepOutput& output) {
  const auto found = live_.find(output.request);
  if (found == live_.end()) return;
  EngineEvent& event = found->second.next;
  std::move(output.prompt_logits.begin(), output.prompt_logits.end(), std::back_inserter(event.prompt_logits));
  event.captured.resize(std::max(event.captured.size(), output.captured.size()));
  for (size_t c = 0; c < output.captured.size(); ++c) {
    event.captured[c].insert(event.captured[c].end(), output.captured[c].begin(), output.captured[c].end());
  }
  if (!output.embedding.empty()) event.embedding = std::move(output.embedding);
}

void Engine::deliver(const RequestEvent& happened) {
  const auto found = live_.find(happened.request);
  if (found == live_.end()) return;
  Live& live = found->second;
  EngineEvent event = std::exchange(live.next, {});
  event.token = happened.token;
  event.finish = happened.finish;
  event.error = happened.error;
  const bool ends_by_token = happened.finish == FinishReason::kStop;
  if (live.detokenizer) {
    if (event.token && !ends_by_token) event.text = live.detokenizer->feed(*event.token);
    if (event.finish != FinishReason::kNone) event.text += live.detokenizer->flush();
  }
  {
    const std::lock_guard lock(live.mailbox->mutex);
    live.mailbox->events.push_back(std::move(event));
    if (live.mailbox->notify) live.mailbox->notify();
  }
  live.mailbox->ready.notify_all();
  if (happened.finish != FinishReason::kNone) live_.erase(found);
}

}  // namespace lamina
