// /generate, as SGLang's clients use it
#include <chrono>

#include "base/strings.h"
#include "server/generation.h"
#include "server/handlers.h"
#include "server/logprobs.h"

namespace lamina::server {
namespace {

using Clock = std::chrono::steady_clock;

struct NativeFields {
  GenerateFields common;
  std::vector<Prompt> prompts;
  bool one = true;  // a single prompt, not an array of them
  bool return_logprob = false, return_text = false;
  int top_logprobs = 0;
  int logprob_start = -1;  // first prompt position with a logprob; -1: none
};

/// Texts are cumulative in a stream, as are ids and logprobs.
class NativeFormat final : public AnswerFormat {
 public:
  NativeFormat(const ServerContext& context, NativeFields& fields)
      : tokenizer_(context.tokenizer()),
        id_(fields.common.id),
        one_(fields.one && fields.common.n == 1),
        return_logprob_(fields.return_logprob),
        return_text_(fields.return_text),
        start_(fields.logprob_start) {}

  std::vector<Json> chunks(const Answer& answer, const EngineEvent& event) override;
  std::vector<Json> tail(const std::vector<Answer>&) override { return {}; }
  Json whole(const std::vector<Answer>& answers) override;

 private:
  Json object(const Answer& answer) const;
  Json meta(const Answer& answer) const;
  Json entry(TokenId token, Json logprob) const;
  Json alternatives(const TokenLogprob& rated) const;
  void add_logprobs(const Answer& answer, Json& meta) const;

  const Tokenizer* tokenizer_;
  std::string id_;
  bool one_, return_logprob_, return_text_;
  int start_;
  Clock::time_point begin_ = Clock::now();
};

Json finish_object(const Answer& answer) {
  Json out;
  if (answer.finish == FinishReason::kNone) return out;
  out.set("type", finish_reason_name(answer.finish));
  if (answer.finish == FinishReason::kStop) out.set("matched", matched_stop_json(answer));
  if (answer.finish == FinishReason::kLength) out.set("length", Json(answer.ids.size()));
  if (answer.finish == FinishReason::kAbort) out.set("message", "Aborted");
  return out;
}

Json NativeFormat::entry(TokenId token, Json logprob) const {
  Json::Array out;
  out.push_back(std::move(logprob));
  out.emplace_back(int64_t{token});
  out.push_back(return_text_ ? Json(token_text(tokenizer_, token)) : Json());
  return Json(std::move(out));
}

Json NativeFormat::alternatives(const TokenLogprob& rated) const {
  Json out = Json::array();
  for (const TokenLogprob::Alternative& other : rated.top) out.push(entry(other.token, Json(static_cast<double>(other.logprob))));
  return out;
}

void NativeFormat::add_logprobs(const Answer& answer, Json& out) const {
  const auto rated = [this](const TokenLogprob& item) { return entry(item.token, Json(static_cast<double>(item.logprob))); };
  Json output = Json::array(), output_top = Json::array();
  for (const TokenLogprob& item : answer.logprobs) {
    output.push(rated(item));
    output_top.push(alternatives(item));
  }
  out.set("output_token_logprobs", std::move(output));
  out.set("output_top_logprobs", std::move(output_top));
  if (start_ < 0) return;
  Json input = Json::array(), input_top = Json::array();
  for (size_t i = static_cast<size_t>(start_); i < answer.prompt->ids.size(); ++i) {
    const bool known = i > 0 && i - 1 < answer.prompt_logprobs.size();
    input.push(known ? rated(answer.prompt_logprobs[i - 1]) : entry(answer.prompt->ids[i], Json()));
    input_top.push(known ? alternatives(answer.prompt_logprobs[i - 1]) : Json());
  }
  out.set("input_token_logprobs", std::move(input));
  out.set("input_top_logprobs", std::move(input_top));
}

Json NativeFormat::meta(const Answer& answer) const {
  Json out;
  out.set("id", id_);
  out.set("finish_reason", finish_object(answer));
  out.set("prompt_tokens", Json(answer.prompt->ids.size()));
  out.set("completion_tokens", Json(answer.ids.size()));
  out.set("cached_tokens", answer.cached_tokens);
  out.set("weight_version", "default");
  out.set("seed", Json(static_cast<int64_t>(answer.seed)));
  out.set("e2e_latency", std::chrono::duration<double>(Clock::now() - begin_).count());
  if (return_logprob_) add_logprobs(answer, out);
  return out;
}

Json NativeFormat::object(const Answer& answer) const {
  Json ids = Json::array(), out;
  for (const TokenId id : answer.ids) ids.push(int64_t{id});
  out.set("text", answer.text);
  out.set("output_ids", std::move(ids));
  out.set("meta_info", meta(answer));
  if (!one_) out.set("index", answer.index);
  return out;
}

std::vector<Json> NativeFormat::chunks(const Answer& answer, const EngineEvent&) { return {object(answer)}; }

Json NativeFormat::whole(const std::vector<Answer>& answers) {
  if (one_) return object(answers.front());
  Json out = Json::array();
  for (const Answer& answer : answers) out.push(object(answer));
  return out;
}

Fault read_sampling(const ServerContext& context, const Json& value, std::string_view name, GenerateFields& out) {
  if (!value.is_object()) return bad_field(name, cat("must be an object, not ", value.kind_name()));
  std::vector<Field> fields = sampling_fields(context, out);
  std::optional<int64_t> limit;
  fields.push_back({"max_new_tokens", &limit, 0});
  fields.push_back({"min_new_tokens", &out.sampling.min_new_tokens, 0});
  fields.push_back({"sampling_seed", [&out](const Json& v, std::string_view field) { return read_seed(v, field, out.sampling.seed); }});
  fields.push_back({"spaces_between_special_tokens", NoEffect{}});
  if (Fault fault = read_fields(value, fields)) return fault;
  if (limit) out.sampling.max_new_tokens = token_limit(*limit);
  return std::nullopt;
}

Fault read(ServerContext& context, const Json& body, NativeFields& out) {
  out.common.sampling = context.defaults;
  out.common.min_tokens_field = "min_new_tokens";
  const auto prompts = [&](const Json& v, std::string_view name) -> Fault {
    if (!out.prompts.empty()) return bad_field(name, "cannot be given together with `text`");
    const bool texts = name == "text", ids = v.is_array() && (v.as_array().empty() || v.as_array().front().is_number());
    const bool strings = v.is_string() || (v.is_array() && !v.as_array().empty() && v.as_array().front().is_string());
    if (texts != strings)
      return bad_field(name, texts ? "must be a string or an array of strings" : "must be token ids or an array of them");
    out.one = v.is_string() || ids;
    return read_prompts(context, v, name, out.prompts);
  };
  const auto sampling = [&](const Json& v, std::string_view name) { return read_sampling(context, v, name, out.common); };
  const std::vector<Field> fields = {
      {"text", prompts},
      {"input_ids", prompts},
      {"sampling_params", sampling},
      {"model", &out.common.model, 0, 1024},
      {"rid", &out.common.id, 0, 256},
      {"stream", &out.common.stream},
      {"return_logprob", &out.return_logprob},
      {"logprob_start_len", &out.logprob_start, -1},
      {"top_logprobs_num", &out.top_logprobs, 0, kMostAlternatives},
      {"return_text_in_logprobs", &out.return_text},
      {"cache_salt", &out.common.cache_salt, 0, 1024},
      {"log_metrics", NoEffect{}},
      {"input_embeds", NotBuilt{}},
      {"image_data", NotBuilt{}},
      {"audio_data", NotBuilt{}},
      {"token_ids_logprob", NotBuilt{}},
      {"lora_path", NotBuilt{}},
      {"session_params", NotBuilt{}},
      {"custom_logit_processor", NotBuilt{}},
      {"return_hidden_states", NotBuilt{}},
  };
  if (Fault fault = read_fields(body, fields)) return fault;
  if (out.prompts.empty()) return bad_field("text", "and `input_ids` are both missing");
  SamplingParams& s = out.common.sampling;
  if (out.return_logprob) s.top_logprobs = out.top_logprobs;
  s.prompt_logprobs = out.return_logprob && out.logprob_start >= 0;
  return check_generation(context, out.common);
}

}  // namespace

Reply generate(ServerContext& context, const Call& call) {
  NativeFields fields;
  if (Fault fault = read(context, call.body, fields)) return error_response(*fault);
  if (fields.common.id.empty()) fields.common.id = context.new_id("");
  auto format = std::make_unique<NativeFormat>(context, fields);
  GenerationPlan plan{.fields = fields.common, .prompts = std::move(fields.prompts), .prompt_field = "text"};
  Reply reply;
  if (Fault fault = start_generation(context, std::move(plan), std::move(format), reply)) return error_response(*fault);
  return reply;
}

}  // namespace lamina::server
