// Fields and checks that the generating endpoints share.
#include <algorithm>
#include <charconv>

#include "api/sampling.h"
#include "base/strings.h"
#include "server/generation.h"

namespace lamina::server {
namespace {

constexpr size_t kMaxStops = 64, kMaxStopBytes = 1024;

Fault read_logit_bias(const Json& value, std::string_view name, int vocab, std::vector<LogitBias>& out) {
  if (!value.is_object()) return bad_field(name, cat("must be an object of token ids and numbers, not ", value.kind_name()));
  for (const auto& [key, bias] : value.as_object()) {
    TokenId id = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool whole = fault == std::errc() && end == key.data() + key.size();
    if (!whole || id < 0 || id >= vocab) {
      return bad_field(name, cat("has the key \"", shown_text(key), "\": keys are token ids in [0, ", vocab, ")"));
    }
    if (!bias.is_number()) return bad_field(name, cat("of token ", id, " must be a number, not ", bias.kind_name()));
    out.push_back({.token = id, .bias = static_cast<float>(bias.as_double())});
  }
  return std::nullopt;
}

Fault read_stream_options(const Json& value, std::string_view name, GenerateFields& fields) {
  if (!value.is_object()) return bad_field(name, cat("must be an object, not ", value.kind_name()));
  return read_fields(value, {{"include_usage", &fields.include_usage}, {"continuous_usage_stats", &fields.continuous_usage}});
}

Fault read_response_format(const Json& value, std::string_view name) {
  if (!value.is_object()) return bad_field(name, cat("must be an object, not ", value.kind_name()));
  const Json* type = value.find("type");
  if (type != nullptr && *type == Json("text")) return std::nullopt;
  return bad_field(name, "is not supported by this server unless its type is \"text\"");
}

}  // namespace

Fault read_seed(const Json& value, std::string_view name, std::optional<uint64_t>& out) {
  if (!value.is_integer()) return bad_field(name, cat("must be an integer below 2^63, not ", shown(value)));
  out = static_cast<uint64_t>(value.as_integer());
  return std::nullopt;
}

std::vector<Field> sampling_fields(const ServerContext& context, GenerateFields& fields) {
  SamplingParams& s = fields.sampling;
  s = context.defaults;
  const int vocab = context.vocab();
  return {
      {"n", &fields.n, 1, 128},
      {"stop", [&s](const Json& v, std::string_view name) { return read_strings(v, name, kMaxStops, kMaxStopBytes, s.stop); }},
      {"stop_token_ids", [&s, vocab](const Json& v, std::string_view name) { return read_ids(v, name, vocab, s.stop_token_ids); }},
      {"logit_bias", [&s, vocab](const Json& v, std::string_view name) { return read_logit_bias(v, name, vocab, s.logit_bias); }},
      {"temperature", &s.temperature},
      {"top_p", &s.top_p},
      {"top_k", &s.top_k},
      {"min_p", &s.min_p},
      {"repetition_penalty", &s.repetition_penalty},
      {"presence_penalty", &s.presence_penalty},
      {"frequency_penalty", &s.frequency_penalty},
      {"ignore_eos", &s.ignore_eos},
      {"skip_special_tokens", &fields.skip_special_tokens},
      {"json_schema", NotBuilt{}},
      {"regex", NotBuilt{}},
      {"ebnf", NotBuilt{}},
      {"structural_tag", NotBuilt{}},
      {"stop_regex", NotBuilt{}},
      {"no_stop_trim", NotBuilt{}},
      {"custom_params", NotBuilt{}},
  };
}

std::vector<Field> openai_fields(const ServerContext& context, GenerateFields& fields) {
  std::vector<Field> out = sampling_fields(context, fields);
  SamplingParams& s = fields.sampling;
  const std::vector<Field> more = {
      {"model", &fields.model, 0, 1024},
      {"stream", &fields.stream},
      {"stream_options", [&fields](const Json& v, std::string_view name) { return read_stream_options(v, name, fields); }},
      {"seed", [&s](const Json& v, std::string_view name) { return read_seed(v, name, s.seed); }},
      {"min_tokens", &s.min_new_tokens, 0},
      {"cache_salt", &fields.cache_salt, 0, 1024},
      {"rid", &fields.id, 0, 256},
      {"response_format", read_response_format},
      {"user", NoEffect{}},
      {"metadata", NoEffect{}},
      {"store", NoEffect{}},
      {"service_tier", NoEffect{}},
      {"priority", NotBuilt{}},
      {"lora_path", NotBuilt{}},
      {"custom_logit_processor", NotBuilt{}},
      {"return_hidden_states", NotBuilt{}},
      {"guided_json", NotBuilt{}},
      {"guided_regex", NotBuilt{}},
      {"guided_grammar", NotBuilt{}},
      {"guided_choice", NotBuilt{}},
  };
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

int token_limit(int64_t wanted) { return static_cast<int>(std::min(wanted, int64_t{1} << 30)); }

Fault check_model(const ServerContext& context, const std::string& model) {
  if (model.empty() || model == context.model_id) return std::nullopt;
  return ApiError{.status = 404,
                  .message = cat("the model `", shown_text(model), "` does not exist; this server has `", context.model_id, "`"),
                  .param = "model",
                  .code = "model_not_found"};
}

Fault check_generation(const ServerContext& context, const GenerateFields& fields) {
  if (Fault fault = check_model(context, fields.model)) return fault;
  const SamplingParams& s = fields.sampling;
  if (s.min_new_tokens > s.max_new_tokens) {
    return bad_field(fields.min_tokens_field,
                     cat("is ", s.min_new_tokens, ": it must not be above the ", s.max_new_tokens, " tokens that may be generated"));
  }
  const Status status = validate(fields.sampling, context.vocab());
  if (!status.ok()) {
    const std::string& message = status.error().message;  // begins with the field's name
    return ApiError{.message = message, .param = message.substr(0, message.find(' '))};
  }
  if (!fields.sampling.stop.empty() && context.tokenizer() == nullptr)
    return bad_field("stop", "needs a tokenizer, which this model lacks");
  return std::nullopt;
}

Fault encode_prompt(const ServerContext& context, const std::string& text, std::string_view name, Prompt& out) {
  const Tokenizer* tokenizer = context.tokenizer();
  if (tokenizer == nullptr) return bad_field(name, "must hold token ids: this model has no tokenizer.json");
  Result<std::vector<TokenId>> ids = tokenizer->encode(text);
  if (!ids.ok()) return bad_field(name, cat("cannot be encoded: ", ids.error().message));
  if (ids->empty()) return bad_field(name, "is empty, and this model's tokenizer puts no token before a text");
  out.ids = std::move(*ids);
  out.text = text;
  return std::nullopt;
}

Fault read_prompts(const ServerContext& context, const Json& value, std::string_view name, std::vector<Prompt>& out) {
  const auto from_ids = [&](const Json& ids) -> Fault {
    Prompt prompt;
    if (Fault fault = read_ids(ids, name, context.vocab(), prompt.ids)) return fault;
    if (prompt.ids.empty()) return bad_field(name, "is an empty array: to begin with nothing, send an empty string");
    if (const Tokenizer* tokenizer = context.tokenizer()) prompt.text = tokenizer->decode(prompt.ids, false);
    out.push_back(std::move(prompt));
    return std::nullopt;
  };
  const auto from_text = [&](const Json& text) -> Fault { return encode_prompt(context, text.as_string(), name, out.emplace_back()); };
  if (value.is_string()) return from_text(value);
  if (!value.is_array())
    return bad_field(name, cat("must be a string, an array of strings or an array of token ids, not ", value.kind_name()));
  const Json::Array& items = value.as_array();
  if (items.empty() || items.front().is_number()) return from_ids(value);
  for (const Json& item : items) {
    if (!item.is_string() && !item.is_array()) return bad_field(name, cat("must hold strings or arrays of token ids, not ", shown(item)));
    if (Fault fault = item.is_string() ? from_text(item) : from_ids(item)) return fault;
  }
  return std::nullopt;
}

}  // namespace lamina::server
