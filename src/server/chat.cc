// /v1/chat/completions
#include "base/strings.h"
#include "server/chat_prompt.h"
#include "server/generation.h"
#include "server/handlers.h"
#include "server/logprobs.h"

namespace lamina::server {
namespace {

struct ChatFields {
  GenerateFields common;
  ChatInput input;
  std::optional<int64_t> max_tokens, max_completion_tokens, top_logprobs;
  bool logprobs = false;
};

class ChatFormat final : public AnswerFormat {
 public:
  ChatFormat(const ServerContext& context, const ChatFields& fields)
      : tokenizer_(context.tokenizer()),
        head_{.id = fields.common.id,
              .object = fields.common.stream ? "chat.completion.chunk" : "chat.completion",
              .model = context.model_id},
        fields_(fields.common),
        logprobs_(fields.logprobs ? static_cast<int>(fields.top_logprobs.value_or(0)) : -1) {}

  std::vector<Json> chunks(const Answer& answer, const EngineEvent& event) override;
  std::vector<Json> tail(const std::vector<Answer>& answers) override;
  Json whole(const std::vector<Answer>& answers) override;

 private:
  Json chunk(const Answer& answer, Json delta, Json logprobs, bool last) const;

  const Tokenizer* tokenizer_;
  ObjectHead head_;
  GenerateFields fields_;
  int logprobs_;
};

Json ChatFormat::chunk(const Answer& answer, Json delta, Json logprobs, bool last) const {
  Json choice, out = head_.json();
  choice.set("index", answer.index);
  choice.set("delta", std::move(delta));
  choice.set("logprobs", std::move(logprobs));
  choice.set("finish_reason", last ? finish_json(answer.finish) : Json());
  if (last) choice.set("matched_stop", matched_stop_json(answer));
  out.set("choices", Json(Json::Array{std::move(choice)}));
  if (fields_.continuous_usage) {
    out.set("usage", usage_json(std::span(&answer, 1), 1));
  } else if (fields_.include_usage) {
    out.set("usage", Json());
  }
  return out;
}

/// A choice begins with its role and ends with a chunk of its own.
std::vector<Json> ChatFormat::chunks(const Answer& answer, const EngineEvent& event) {
  std::vector<Json> out;
  if (!answer.begun) {
    Json delta;
    delta.set("role", "assistant");
    delta.set("content", "");
    out.push_back(chunk(answer, std::move(delta), Json(), false));
  }
  const bool rated = event.logprob && logprobs_ >= 0;
  if (!event.text.empty() || rated) {
    Json delta;
    delta.set("content", event.text);
    out.push_back(chunk(answer, std::move(delta), rated ? chat_logprobs(tokenizer_, {&*event.logprob, 1}, logprobs_) : Json(), false));
  }
  if (answer.finish != FinishReason::kNone) out.push_back(chunk(answer, Json::object(), Json(), true));
  return out;
}

std::vector<Json> ChatFormat::tail(const std::vector<Answer>& answers) {
  if (!fields_.include_usage) return {};
  Json out = head_.json();
  out.set("choices", Json::array());
  out.set("usage", usage_json(answers, fields_.n));
  return {std::move(out)};
}

Json ChatFormat::whole(const std::vector<Answer>& answers) {
  Json choices = Json::array();
  for (const Answer& answer : answers) {
    Json message, choice;
    message.set("role", "assistant");
    message.set("content", answer.text);
    message.set("refusal", Json());
    choice.set("index", answer.index);
    choice.set("message", std::move(message));
    choice.set("logprobs", logprobs_ >= 0 ? chat_logprobs(tokenizer_, answer.logprobs, logprobs_) : Json());
    choice.set("finish_reason", finish_json(answer.finish));
    choice.set("matched_stop", matched_stop_json(answer));
    choices.push(std::move(choice));
  }
  Json out = head_.json();
  out.set("seed", Json(static_cast<int64_t>(answers.front().seed)));
  out.set("choices", std::move(choices));
  out.set("usage", usage_json(answers, fields_.n));
  return out;
}

std::vector<Field> chat_fields(const ServerContext& context, ChatFields& out) {
  std::vector<Field> fields = openai_fields(context, out.common);
  ChatInput& input = out.input;
  const std::vector<Field> more = {
      {"messages", [&input](const Json& v, std::string_view name) { return read_messages(v, name, input.messages); }},
      {"chat_template_kwargs",
       [&input](const Json& v, std::string_view name) { return read_template_variables(v, name, input.variables); }},
      {"reasoning_effort", [&input](const Json& v, std::string_view name) { return read_template_variable(v, name, input.variables); }},
      {"add_generation_prompt", &input.add_generation_prompt},
      {"max_tokens", &out.max_tokens, 1},
      {"max_completion_tokens", &out.max_completion_tokens, 1},
      {"logprobs", &out.logprobs},
      {"top_logprobs", &out.top_logprobs, 0, kMostAlternatives},
      {"parallel_tool_calls", NoEffect{}},
      {"verbosity", NoEffect{}},
      {"prompt_cache_key", NoEffect{}},
      {"safety_identifier", NoEffect{}},
      {"tools", NotBuilt{}},
      {"tool_choice", NotBuilt{.neutral = "none"}},
      {"functions", NotBuilt{}},
      {"function_call", NotBuilt{.neutral = "none"}},
      {"continue_final_message", NotBuilt{}},
      {"modalities", NotBuilt{}},
      {"audio", NotBuilt{}},
      {"prediction", NotBuilt{}},
      {"web_search_options", NotBuilt{}},
      {"input_ids", NotBuilt{}},
  };
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

Fault read(ServerContext& context, const Json& body, ChatFields& out) {
  if (Fault fault = read_fields(body, chat_fields(context, out))) return fault;
  if (out.input.messages.as_array().empty()) return bad_field("messages", "is missing or empty");
  if (out.top_logprobs && !out.logprobs) return bad_field("top_logprobs", "needs `logprobs` to be true");
  SamplingParams& sampling = out.common.sampling;
  const std::optional<int64_t> limit = out.max_completion_tokens ? out.max_completion_tokens : out.max_tokens;
  sampling.max_new_tokens = token_limit(limit.value_or(context.context_length()));
  if (out.logprobs) sampling.top_logprobs = static_cast<int>(out.top_logprobs.value_or(0));
  return check_generation(context, out.common);
}

}  // namespace

Reply chat_completions(ServerContext& context, const Call& call) {
  ChatFields fields;
  if (Fault fault = read(context, call.body, fields)) return error_response(*fault);
  if (fields.common.id.empty()) fields.common.id = context.new_id("chatcmpl-");
  GenerationPlan plan{.fields = fields.common, .prompt_field = "messages"};
  if (Fault fault = render_chat(context, fields.input, plan.prompts.emplace_back())) return error_response(*fault);
  Reply reply;
  if (Fault fault = start_generation(context, std::move(plan), std::make_unique<ChatFormat>(context, fields), reply)) {
    return error_response(*fault);
  }
  return reply;
}

}  // namespace lamina::server
