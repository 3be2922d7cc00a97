#pragma once
// The facade: submit, stream, cancel. Owns the model on all ranks of this process, the scheduler and the one thread that drives them.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/loaded_model.h"
#include "scheduler/scheduler.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace lamina {

struct EngineRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  bool all_logits = false;   // logits of every prompt position, and captured hidden states
  bool pool = false;         // the pooled embedding instead of tokens
  bool skip_special = true;  // special tokens are left out of the text
  std::string cache_salt;    // requests share cached prefixes only within one salt
};

/// One thing that happened to a request. The last event has `finish` set.
struct EngineEvent {
  std::optional<TokenId> token;
  std::optional<TokenLogprob> logprob;  // of `token`, when asked for
  std::string text;                     // what became final with it; never half a character, never part of a stop string
  int64_t at_ns = 0;                    // SteadyClock when it happened
  FinishReason finish = FinishReason::kNone;
  std::string error;                          // why a request ended with kAbort
  std::string matched_stop;                   // the stop string that ended the text
  int cached_tokens = 0;                      // with the first event: prompt tokens taken from the prefix cache
  std::vector<TokenLogprob> prompt_logprobs;  // with the first event, from the prompt's second token on
  std::vector<float> prompt_logits;           // [prompt, vocab], with the first event
  std::vector<std::vector<float>> captured;   // [prompt, hidden] a capture layer, likewise
  std::vector<float> embedding;
};

/// Events of one request, in order. Made by Engine::submit; dropping it cancels the request. One reader.
class RequestStream {
 public:
  ~RequestStream();
  RequestStream(const RequestStream&) = delete;
  RequestStream& operator=(const RequestStream&) = delete;

  RequestId id() const { return id_; }
  uint64_t seed() const { return seed_; }
  /// Waits for the next event; nothing after the last one.
  std::optional<EngineEvent> next();
  /// The next event if there is one already.
  std::optional<EngineEvent> try_next();
  /// `notify` is called on the engine's thread after each event from now on (at once when one waits already); it must not block.
  void set_notify(std::function<void()> notify);

 private:
  friend class Engine;
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable ready;
    std::deque<EngineEvent> events;
    std::function<void()> notify;
  };
  RequestStream(class Engine& engine, RequestId id, uint64_t seed, std::shared_ptr<Mailbox> mailbox)
      : engine_(engine), id_(id), seed_(seed), mailbox_(std::move(mailbox)) {}
  std::optional<EngineEvent> take();  // mailbox locked, not empty

  Engine& engine_;
  RequestId id_;
  uint64_t seed_;
  std::shared_ptr<Mailbox> mailbox_;  // owners: this stream and the engine's table of live requests
  bool finished_ = false;
};

/// Counters and gauges of an engine at one moment.
struct EngineStats {
  int running = 0, waiting = 0;
  int64_t pages_total = 0, pages_free = 0, pages_cached = 0, pages_held = 0;  // free + cached + held == total
  int64_t prompt_tokens = 0, generation_tokens = 0, cached_tokens = 0;
  int64_t requests = 0, aborted = 0, retracted = 0, evicted_tokens = 0;
  int64_t steps = 0;
};

class Engine {
 public:
  /// Loads the model and starts the loop. `progress` may be empty. Under mpirun: rank 0; the other processes call run_worker().
  static Result<std::unique_ptr<Engine>> start(const EngineOptions& options, const LoadProgress& progress = {});
  /// The life of a process that is not rank 0: loads its rank and computes until rank 0 ends. An empty error: another process has failed.
  static Status run_worker(const EngineOptions& options);
  /// Cancels what runs, joins the loop and lets the other processes end. Streams must be gone.
  ~Engine();

  /// Queues a request; refused (naming the field and what is allowed) when it is invalid, can never fit, or the queue is full, in which
  /// case `queue_full` (when given) is set, and always after a fault. Thread-safe.
  Result<std::unique_ptr<RequestStream>> submit(EngineRequest request, bool* queue_full = nullptr);
  /// Queues all of the requests or none, in this order and between two plans: no step can choose among only some of them. Thread-safe.
  Result<std::vector<std::unique_ptr<RequestStream>>> submit_together(std::vector<EngineRequest> requests);
  /// Ends a request; its stream gets a last event with kAbort. Thread-safe.
  void cancel(RequestId id);

  /// Why the ranks cannot go on: one is gone, or waited in vain for another. Empty while they can; a fault is for ever. Every live request
  /// gets a last event with kAbort and this text. Thread-safe.
  std::string fault() const { return loaded_.set.fault->message(); }
  /// What ends all ranks when it is raised. Thread-safe.
  RankFault& rank_fault() { return *loaded_.set.fault; }
  /// `notify` is called once after a fault has ended the live requests (at once if it has), with the engine locked: it
  /// must not block or call the engine.
  void set_on_fault(std::function<void()> notify);

  /// Gives the runner of each rank of this process, by world rank, the sink of its named intermediates; nullptr: none. While nothing runs.
  void set_taps(const std::function<TapSink*(int rank)>& sink_of);

  EngineStats stats();
  /// Forgets cached prefixes; false, and nothing happens, while requests run or wait.
  bool flush_cache();

  const EngineInfo& info() const { return loaded_.info; }
  const ModelConfig& config() const { return loaded_.config; }
  /// What generation_config.json suggests, for requests that are silent (serve).
  const SamplingParams& sampling_defaults() const { return loaded_.sampling_defaults; }
  /// An error that says so when the folder has no tokenizer.json.
  Result<const Tokenizer*> tokenizer() const;
  /// Compiled at the start; empty when the checkpoint has none.
  const ChatTemplates& chat_templates() const { return loaded_.chat_templates; }

 private:
  /// A request from submit to its last event.
  struct Live {
    std::shared_ptr<RequestStream::Mailbox> mailbox = std::make_shared<RequestStream::Mailbox>();
    std::optional<Detokenizer> detokenizer;
    StopMatcher stops{{}};
    EngineEvent next;  // logits and states gathered for the next event
  };

  Engine(LoadedModel loaded, const EngineOptions& options);
  Status check(const EngineRequest& request) const;
  /// A checked request's way into the scheduler; mutex_ is held.
  Result<std::unique_ptr<RequestStream>> enqueue(EngineRequest request, bool* queue_full);
  void loop();
  /// Waits for something to do; false at the end. `lock` holds mutex_ here and below.
  bool await_work(std::unique_lock<std::mutex>& lock);
  /// Keeps as many plans in flight as the ranks take.
  void submit_plans(std::unique_lock<std::mutex>& lock);
  void take_result(std::unique_lock<std::mutex>& lock);
  void abort_all();
  /// Keeps what a step left for a request until its next event.
  void attach(StepOutput& output);
  void count(const RequestEvent& event);
  void deliver(const RequestEvent& event);
  void add_text(RequestId id, Live& live, EngineEvent& event);

  LoadedModel loaded_;
  std::unique_ptr<StepExecutor> executor_;  // ends the other ranks when it goes
  int depth_ = 1;                           // plans in flight at most
  std::mutex mutex_;                        // guards scheduler_, live_, stats_, stopping_, aborted_, next_id_, on_fault_
  std::condition_variable wake_;
  Scheduler scheduler_;
  std::unordered_map<RequestId, Live> live_;
  EngineStats stats_;
  bool stopping_ = false;
  bool aborted_ = false;  // the live requests have been told of a fault
  std::function<void()> on_fault_;
  int64_t next_id_ = 1;
  int in_flight_ = 0;  // the rest belongs to the loop
  StepPlan plan_;
  StepResult result_;
  std::vector<RequestEvent> events_;
  std::thread thread_;
};

}  // namespace lamina
