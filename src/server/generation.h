#pragma once
// From a parsed request to engine requests and back: what all endpoints that run the model share.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/context.h"
#include "server/errors.h"
#include "server/schema.h"

namespace lamina::server {

/// One input of a request.
struct Prompt {
  std::vector<TokenId> ids;
  std::string text;  // as given, or decoded when ids were given
};

/// Fields that the generating endpoints have in common.
struct GenerateFields {
  SamplingParams sampling;
  int n = 1;
  bool stream = false;
  bool include_usage = false;     // stream_options: a last chunk with the usage
  bool continuous_usage = false;  // stream_options: usage in every chunk
  bool skip_special_tokens = true;
  std::string model, cache_salt;
  std::string id;  // `rid`, or drawn
  std::string_view min_tokens_field = "min_tokens";
};

/// What has come of one choice so far.
struct Answer {
  int index = 0;  // in the response: prompt * n + choice
  const Prompt* prompt = nullptr;
  std::string text;
  std::vector<TokenId> ids;                   // the token that ended the answer included
  std::vector<TokenLogprob> logprobs;         // of `ids`, when asked for
  std::vector<TokenLogprob> prompt_logprobs;  // of the prompt's tokens but the first, when asked for
  std::vector<float> embedding;
  FinishReason finish = FinishReason::kNone;
  std::string matched_stop;
  int cached_tokens = 0;
  uint64_t seed = 0;
  bool begun = false;  // an event was shown before
};

/// How answers become JSON; one a family of endpoints.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  /// Objects of the stream for `event`, which `answer` already holds.
  virtual std::vector<Json> chunks(const Answer& answer, const EngineEvent& event) = 0;
  /// The last objects of the stream.
  virtual std::vector<Json> tail(const std::vector<Answer>& answers) = 0;
  /// The answer that is no stream.
  virtual Json whole(const std::vector<Answer>& answers) = 0;
};

/// What is to be computed: each prompt n times.
struct GenerationPlan {
  GenerateFields fields;
  std::vector<Prompt> prompts;
  bool pool = false;
  std::string_view prompt_field = "prompt";  // the field that errors about a prompt name
};

/// Checks and submits. The reply is a stream or waits for the end, as the fields say; on a fault nothing runs.
Fault start_generation(ServerContext& context, GenerationPlan plan, std::unique_ptr<AnswerFormat> format, Reply& reply);

/// Sampling fields that all generating endpoints share, for read_fields. `fields` gets the server's defaults at once, is filled when the
/// table is used and outlives it.
std::vector<Field> sampling_fields(const ServerContext& context, GenerateFields& fields);
/// Besides them what OpenAI's endpoints share.
std::vector<Field> openai_fields(const ServerContext& context, GenerateFields& fields);
Fault read_seed(const Json& value, std::string_view name, std::optional<uint64_t>& out);
/// Cuts a limit that is beyond all contexts; the engine cuts it to what the request's context leaves.
int token_limit(int64_t wanted);
/// What read_fields cannot check: the model's name, ranges of the sampling parameters.
Fault check_generation(const ServerContext& context, const GenerateFields& fields);
Fault check_model(const ServerContext& context, const std::string& model);

/// A string, [string], [ids] or [[ids]] as prompts; strings are encoded with the tokenizer's special tokens, ids are taken as they are.
Fault read_prompts(const ServerContext& context, const Json& value, std::string_view name, std::vector<Prompt>& out);
Fault encode_prompt(const ServerContext& context, const std::string& text, std::string_view name, Prompt& out);

/// What all objects of an answer begin with.
struct ObjectHead {
  std::string id, object, model;
  int64_t created = unix_time();

  Json json() const;
};

/// Tokens of all prompts, each once, and of all answers.
Json usage_json(std::span<const Answer> answers, int n);
/// "stop", "length", "abort", or null while running.
Json finish_json(FinishReason finish);
/// The stop string or id that ended the answer, or null.
Json matched_stop_json(const Answer& answer);

}  // namespace lamina::server
