#include "server/generation.h"

#include <algorithm>

#include "base/strings.h"

namespace lamina::server {
namespace {

using Clock = std::chrono::steady_clock;

// A stream's piece grows no further, so that an engine faster than the writing of its events never holds up the other connections.
constexpr size_t kPieceBytes = size_t{64} << 10;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The engine requests of one HTTP request.
class Generation final : public PendingReply {
 public:
  Generation(ServerContext& context, GenerationPlan plan, std::unique_ptr<AnswerFormat> format)
      : context_(context), plan_(std::move(plan)), format_(std::move(format)) {}
  ~Generation() override;

  Fault submit();
  bool streams() const override { return plan_.fields.stream; }
  void set_wake(std::function<void()> wake) override;
  Piece poll() override;

 private:
  struct Choice {
    std::unique_ptr<RequestStream> stream;
    Clock::time_point last_token;
  };
  Fault submit_choice(size_t prompt, int choice);
  void take(size_t index, EngineEvent& event, Piece& piece);
  Piece fail(const EngineEvent& event);

  ServerContext& context_;
  GenerationPlan plan_;
  std::unique_ptr<AnswerFormat> format_;
  std::vector<Choice> choices_;
  std::vector<Answer> answers_;
  std::vector<RequestId> ids_;
  size_t unfinished_ = 0;
  Clock::time_point start_ = Clock::now();
};

Generation::~Generation() {
  for (Choice& choice : choices_) choice.stream->set_notify({});  // returns when no call is under way
  if (!ids_.empty()) context_.live.remove(plan_.fields.id, ids_);
}

Fault Generation::submit() {
  const size_t total = plan_.prompts.size() * static_cast<size_t>(plan_.fields.n);
  answers_.resize(total);
  for (size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
    for (int choice = 0; choice < plan_.fields.n; ++choice) {
      if (Fault fault = submit_choice(prompt, choice)) return fault;
    }
  }
  unfinished_ = total;
  context_.live.add(plan_.fields.id, ids_);
  return std::nullopt;
}

Fault Generation::submit_choice(size_t prompt, int choice) {
  const GenerateFields& fields = plan_.fields;
  EngineRequest request{.prompt = plan_.prompts[prompt].ids,
                        .sampling = fields.sampling,
                        .pool = plan_.pool,
                        .skip_special = fields.skip_special_tokens,
                        .cache_salt = fields.cache_salt};
  request.sampling.choice = choice;
  bool queue_full = false;
  Result<std::unique_ptr<RequestStream>> stream = context_.engine.submit(std::move(request), &queue_full);
  if (!stream.ok() && !context_.engine.fault().empty())
    return ApiError{.status = 503, .message = stream.error().message, .code = "unavailable"};
  if (!stream.ok() && queue_full) return ApiError{.status = 503, .message = stream.error().message, .code = "queue_full"};
  if (!stream.ok()) return ApiError{.message = stream.error().message, .param = std::string(plan_.prompt_field)};
  Answer& answer = answers_[choices_.size()];
  answer.index = static_cast<int>(choices_.size());
  answer.prompt = &plan_.prompts[prompt];
  answer.seed = (*stream)->seed();
  ids_.push_back((*stream)->id());
  choices_.push_back({std::move(*stream), Clock::now()});
  return std::nullopt;
}

void Generation::set_wake(std::function<void()> wake) {
  for (Choice& choice : choices_) choice.stream->set_notify(wake);
}

PendingReply::Piece Generation::fail(const EngineEvent& event) {
  const ApiError error{.status = 500, .message = cat("the request could not be computed: ", event.error)};
  Piece piece;
  piece.done = true;
  if (streams()) {
    piece.events = sse_event(error_json(error).dump());
  } else {
    piece.whole = error_response(error);
  }
  return piece;
}

void Generation::take(size_t index, EngineEvent& event, Piece& piece) {
  Answer& answer = answers_[index];
  if (event.token) {
    answer.ids.push_back(*event.token);
    Choice& choice = choices_[index];
    answer.ids.size() == 1 ? context_.metrics.first_token(seconds_since(start_))
                           : context_.metrics.next_token(seconds_since(choice.last_token));
    choice.last_token = Clock::now();
  }
  answer.text += event.text;
  if (event.logprob) answer.logprobs.push_back(*event.logprob);
  if (!answer.begun) {
    answer.prompt_logprobs = std::move(event.prompt_logprobs);
    answer.cached_tokens = event.cached_tokens;
  }
  if (!event.embedding.empty()) answer.embedding = std::move(event.embedding);
  answer.matched_stop = event.matched_stop;
  answer.finish = event.finish;
  if (event.finish != FinishReason::kNone) {
    --unfinished_;
    context_.metrics.request_end(seconds_since(start_));
  }
  if (streams()) {
    for (const Json& chunk : format_->chunks(answer, event)) piece.events += sse_event(chunk.dump());
  }
  answer.begun = true;
}

PendingReply::Piece Generation::poll() {
  Piece piece;
  for (size_t i = 0; i < choices_.size(); ++i) {
    while (answers_[i].finish == FinishReason::kNone) {
      std::optional<EngineEvent> event = choices_[i].stream->try_next();
      if (!event) break;
      if (!event->error.empty()) {
        Piece failure = fail(*event);
        failure.events = piece.events + failure.events;
        return failure;
      }
      take(i, *event, piece);
      if (piece.events.size() >= kPieceBytes && unfinished_ > 0) {
        piece.full = true;
        return piece;
      }
    }
  }
  if (unfinished_ > 0) return piece;
  piece.done = true;
  if (streams()) {
    for (const Json& chunk : format_->tail(answers_)) piece.events += sse_event(chunk.dump());
    piece.events += sse_event("[DONE]");
  } else {
    piece.whole = HttpResponse{.body = format_->whole(answers_).dump()};
  }
  return piece;
}

Fault check_prompts(const ServerContext& context, const GenerationPlan& plan) {
  constexpr size_t kMaxAnswers = 4096;
  const size_t total = plan.prompts.size() * static_cast<size_t>(plan.fields.n);
  if (total > kMaxAnswers)
    return bad_field(plan.prompt_field, cat("and n ask for ", total, " answers: at most ", kMaxAnswers, " are allowed"));
  const int64_t reserved = plan.pool || plan.fields.sampling.max_new_tokens == 0 ? 0 : 1;
  const int64_t longest = context.context_length() - reserved;
  for (const Prompt& prompt : plan.prompts) {
    const int64_t length = static_cast<int64_t>(prompt.ids.size());
    if (length == 0) return bad_field(plan.prompt_field, "has no tokens");
    if (length <= longest) continue;
    ApiError fault = bad_field(plan.prompt_field, cat("has ", length, " tokens: the model's context of ", context.context_length(),
                                                      " tokens allows at most ", longest, reserved > 0 ? " and one to generate" : ""));
    fault.code = "context_length_exceeded";
    return fault;
  }
  return std::nullopt;
}

}  // namespace

Fault start_generation(ServerContext& context, GenerationPlan plan, std::unique_ptr<AnswerFormat> format, Reply& reply) {
  if (Fault fault = check_prompts(context, plan)) return fault;
  if (!plan.fields.sampling.seed) plan.fields.sampling.seed = context.new_seed();
  auto generation = std::make_unique<Generation>(context, std::move(plan), std::move(format));
  if (Fault fault = generation->submit()) return fault;
  reply = std::move(generation);
  return std::nullopt;
}

Json ObjectHead::json() const {
  Json out;
  out.set("id", id);
  out.set("object", object);
  out.set("created", created);
  out.set("model", model);
  return out;
}

Json usage_json(std::span<const Answer> answers, int n) {
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  for (const Answer& answer : answers) {
    completion_tokens += static_cast<int64_t>(answer.ids.size());
    if (answer.index % n != 0) continue;
    prompt_tokens += static_cast<int64_t>(answer.prompt->ids.size());
    cached_tokens += answer.cached_tokens;
  }
  Json details, usage;
  details.set("cached_tokens", cached_tokens);
  usage.set("prompt_tokens", prompt_tokens);
  usage.set("completion_tokens", completion_tokens);
  usage.set("total_tokens", prompt_tokens + completion_tokens);
  usage.set("prompt_tokens_details", std::move(details));
  return usage;
}

Json finish_json(FinishReason finish) { return finish == FinishReason::kNone ? Json() : Json(finish_reason_name(finish)); }

Json matched_stop_json(const Answer& answer) {
  if (answer.finish != FinishReason::kStop) return {};
  if (!answer.matched_stop.empty()) return Json(answer.matched_stop);
  return answer.ids.empty() ? Json() : Json(int64_t{answer.ids.back()});
}

}  // namespace lamina::server
