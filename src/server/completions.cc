// /v1/completions
#include "server/generation.h"
#include "server/handlers.h"
#include "server/logprobs.h"

namespace lamina::server {
namespace {

struct CompletionFields {
  GenerateFields common;
  std::vector<Prompt> prompts;
  std::optional<int64_t> max_tokens, logprobs, best_of;
  bool echo = false;
};

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(const ServerContext& context, const CompletionFields& fields)
      : tokenizer_(context.tokenizer()),
        head_{.id = fields.common.id, .object = "text_completion", .model = context.model_id},
        fields_(fields.common),
        logprobs_(fields.logprobs ? static_cast<int>(*fields.logprobs) : -1),
        echo_(fields.echo),
        offsets_(fields.prompts.size() * static_cast<size_t>(fields.common.n), 0) {}

  std::vector<Json> chunks(const Answer& answer, const EngineEvent& event) override;
  std::vector<Json> tail(const std::vector<Answer>& answers) override;
  Json whole(const std::vector<Answer>& answers) override;

 private:
  Json choice(const Answer& answer, std::string text, Json logprobs) const;
  void add_prompt(CompletionLogprobs& out, const Answer& answer) const;

  const Tokenizer* tokenizer_;
  ObjectHead head_;
  GenerateFields fields_;
  int logprobs_;
  bool echo_;
  std::vector<int64_t> offsets_;  // of a stream's choices: characters of the tokens shown so far
};

Json CompletionFormat::choice(const Answer& answer, std::string text, Json logprobs) const {
  Json out;
  out.set("index", answer.index);
  out.set("text", std::move(text));
  out.set("logprobs", std::move(logprobs));
  out.set("finish_reason", finish_json(answer.finish));
  out.set("matched_stop", matched_stop_json(answer));
  return out;
}

void CompletionFormat::add_prompt(CompletionLogprobs& out, const Answer& answer) const {
  out.add_prompt(answer.prompt->text, answer.prompt->ids.front(), answer.prompt_logprobs);
}

std::vector<Json> CompletionFormat::chunks(const Answer& answer, const EngineEvent& event) {
  std::string text = echo_ && !answer.begun ? answer.prompt->text + event.text : event.text;
  const bool shows = !text.empty() || (event.logprob && logprobs_ >= 0) || answer.finish != FinishReason::kNone;
  if (!shows) return {};
  Json logprobs;
  if (logprobs_ >= 0) {
    int64_t& offset = offsets_[static_cast<size_t>(answer.index)];
    CompletionLogprobs entries(tokenizer_, logprobs_, fields_.skip_special_tokens, offset);
    if (echo_ && !answer.begun) add_prompt(entries, answer);
    if (event.logprob) entries.add(*event.logprob);
    offset = entries.offset();
    logprobs = std::move(entries).json();
  }
  Json out = head_.json();
  out.set("choices", Json(Json::Array{choice(answer, std::move(text), std::move(logprobs))}));
  if (fields_.continuous_usage) {
    out.set("usage", usage_json(std::span(&answer, 1), 1));
  } else if (fields_.include_usage) {
    out.set("usage", Json());
  }
  return {std::move(out)};
}

std::vector<Json> CompletionFormat::tail(const std::vector<Answer>& answers) {
  if (!fields_.include_usage) return {};
  Json out = head_.json();
  out.set("choices", Json::array());
  out.set("usage", usage_json(answers, fields_.n));
  return {std::move(out)};
}

Json CompletionFormat::whole(const std::vector<Answer>& answers) {
  Json choices = Json::array();
  for (const Answer& answer : answers) {
    Json logprobs;
    if (logprobs_ >= 0) {
      CompletionLogprobs entries(tokenizer_, logprobs_, fields_.skip_special_tokens);
      if (echo_) add_prompt(entries, answer);
      for (const TokenLogprob& entry : answer.logprobs) entries.add(entry);
      logprobs = std::move(entries).json();
    }
    choices.push(choice(answer, echo_ ? answer.prompt->text + answer.text : answer.text, std::move(logprobs)));
  }
  Json out = head_.json();
  out.set("seed", Json(static_cast<int64_t>(answers.front().seed)));
  out.set("choices", std::move(choices));
  out.set("usage", usage_json(answers, fields_.n));
  return out;
}

Fault read(ServerContext& context, const Json& body, CompletionFields& out) {
  std::vector<Field> fields = openai_fields(context, out.common);
  const auto prompts = [&](const Json& v, std::string_view name) { return read_prompts(context, v, name, out.prompts); };
  fields.push_back({"prompt", prompts});
  fields.push_back({"max_tokens", &out.max_tokens, 0});
  fields.push_back({"logprobs", &out.logprobs, 0, kMostAlternatives});
  fields.push_back({"best_of", &out.best_of, 1, 128});
  fields.push_back({"echo", &out.echo});
  fields.push_back({"suffix", NotBuilt{}});
  if (Fault fault = read_fields(body, fields)) return fault;
  if (out.prompts.empty()) return bad_field("prompt", "is missing or holds nothing");
  if (out.best_of && *out.best_of != out.common.n) return bad_field("best_of", "must equal `n`: answers are not ranked here");
  if (out.max_tokens.value_or(1) == 0 && !out.echo) return bad_field("max_tokens", "must be at least 1, or 0 together with `echo`");
  constexpr int64_t kDefaultTokens = 16;
  SamplingParams& sampling = out.common.sampling;
  sampling.max_new_tokens = token_limit(out.max_tokens.value_or(kDefaultTokens));
  if (out.logprobs) sampling.top_logprobs = static_cast<int>(*out.logprobs);
  sampling.prompt_logprobs = out.logprobs && out.echo;
  return check_generation(context, out.common);
}

}  // namespace

Reply completions(ServerContext& context, const Call& call) {
  CompletionFields fields;
  if (Fault fault = read(context, call.body, fields)) return error_response(*fault);
  if (fields.common.id.empty()) fields.common.id = context.new_id("cmpl-");
  auto format = std::make_unique<CompletionFormat>(context, fields);
  Reply reply;
  GenerationPlan plan{.fields = fields.common, .prompts = std::move(fields.prompts)};
  if (Fault fault = start_generation(context, std::move(plan), std::move(format), reply)) return error_response(*fault);
  return reply;
}

}  // namespace lamina::server
