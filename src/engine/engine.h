#pragma once
// The facade: submit, stream, cancel. Owns the model, the scheduler and the one thread that drives them.

#include <condition_variable>
#include <deque>
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

namespace lamina {

struct EngineRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  bool all_logits = false;   // logits of every prompt position, and captured hidden states
  bool pool = false;         // the pooled embedding instead of tokens
  bool skip_special = true;  // special tokens are left out of the text
};

/// One thing that happened to a request. The last event has `finish` set (or `error`).
struct EngineEvent {
  std::optional<TokenId> token;
  std::string text;  // what became final with it; never half a character
  FinishReason finish = FinishReason::kNone;
  std::string error;                         // why a request ended with kAbort
  std::vector<float> prompt_logits;          // [prompt, vocab], with the first event after the prompt
  std::vector<std::vector<float>> captured;  // [prompt, hidden] a capture layer, likewise
  std::vector<float> embedding;
};

/// Events of one request, in order. Made by Engine::submit; dropping it cancels the request.
class RequestStream {
 public:
  ~RequestStream();
  RequestStream(const RequestStream&) = delete;
  RequestStream& operator=(const RequestStream&) = delete;

  RequestId id() const { return id_; }
  /// Waits for the next event; nothing after the last one.
  std::optional<EngineEvent> next();
  uint64_t seed() const { return seed_; }

 private:
  friend class Engine;
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable ready;
    std::deque<EngineEvent> events;
  };
  RequestStream(class Engine& engine, RequestId id, uint64_t seed, std::shared_ptr<Mailbox> mailbox)
      : engine_(engine), id_(id), seed_(seed), mailbox_(std::move(mailbox)) {}

  Engine& engine_;
  RequestId id_;
  uint64_t seed_;
  std::shared_ptr<Mailbox> mailbox_;  // owners: this stream and the engine's table of live requests
  bool finished_ = false;
};

class Engine {
 public:
  /// Loads the model and starts the loop. `progress` may be empty.
  static Result<std::unique_ptr<Engine>> start(const EngineOptions& options, const LoadProgress& progress = {});
  /// Cancels what runs and joins the loop. Streams must be gone.
  ~Engine();

  /// Queues a request; refused (naming the field and what is allowed) when it is invalid or can never fit. Thread-safe.
  Result<std::unique_ptr<RequestStream>> submit(EngineRequest request);
  /// Ends a request; its stream gets a last event with kAbort. Thread-safe.
  void cancel(RequestId id);

  const EngineInfo& info() const { return loaded_.info; }
  const ModelConfig& config() const { return loaded_.config; }
  /// An error that says so when the folder has no tokenizer.json.
  Result<const Tokenizer*> tokenizer() const;
  ModelRunner& runner() { return *loaded_.runner; }

 private:
  /// A request from submit to its last event.
  struct Live {
    std::shared_ptr<RequestStream::Mailbox> mailbox;
    std::optional<Detokenizer> detokenizer;
    EngineEvent next;  // logits and states gathered for the next event
  };

  Engine(LoadedModel loaded, const EngineOptions& options);
  void loop();
  /// Keeps what a step left for a request until its next event.
  void attach(StepOutput& output);
  void deliver(const RequestEvent& event);

  LoadedModel loaded_;
  std::mutex mutex_;  // guards scheduler_, live_, stopping_
  std::condition_variable wake_;
  Scheduler scheduler_;
  std::unordered_map<RequestId, Live> live_;
  bool stopping_ = false;
  int64_t next_id_ = 1;
  std::thread thread_;
};

}  // namespace lamina
