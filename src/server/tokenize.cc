// /tokenize, /detokenize
#include "base/strings.h"
#include "server/generation.h"
#include "server/handlers.h"

namespace lamina::server {
namespace {

constexpr size_t kMaxTexts = 4096;

Json ids_json(const std::vector<TokenId>& ids) {
  Json out = Json::array();
  for (const TokenId id : ids) out.push(int64_t{id});
  return out;
}

HttpResponse no_tokenizer() {
  return error_response({.message = "this model has no tokenizer.json: only token ids can be used", .code = "no_tokenizer"});
}

}  // namespace

/// {"prompt": text or [text], "add_special_tokens": true} -> {"tokens", "count", "max_model_len"}; arrays of them for an array.
Reply tokenize(ServerContext& context, const Call& call) {
  const Tokenizer* tokenizer = context.tokenizer();
  if (tokenizer == nullptr) return no_tokenizer();
  std::string model;
  bool add_special = true;
  const Json* prompt = call.body.find("prompt");
  const std::vector<Field> fields = {{"prompt", NoEffect{}}, {"model", &model, 0, 1024}, {"add_special_tokens", &add_special}};
  if (Fault fault = read_fields(call.body, fields)) return error_response(*fault);
  if (Fault fault = check_model(context, model)) return error_response(*fault);
  const bool many = prompt != nullptr && prompt->is_array() && prompt->as_array().size() <= kMaxTexts;
  if (prompt == nullptr || (!prompt->is_string() && !many)) {
    return error_response(bad_field("prompt", cat("must be a string or an array of at most ", kMaxTexts, " strings")));
  }
  Json tokens = Json::array(), counts = Json::array(), out;
  for (const Json& text : many ? prompt->as_array() : Json::Array{*prompt}) {
    if (!text.is_string()) return error_response(bad_field("prompt", cat("must hold strings, not ", shown(text))));
    const Result<std::vector<TokenId>> ids = tokenizer->encode(text.as_string(), {.add_special_tokens = add_special});
    if (!ids.ok()) return error_response(bad_field("prompt", cat("cannot be encoded: ", ids.error().message)));
    tokens.push(ids_json(*ids));
    counts.push(Json(ids->size()));
  }
  out.set("tokens", many ? std::move(tokens) : tokens.as_array().front());
  out.set("count", many ? std::move(counts) : counts.as_array().front());
  out.set("max_model_len", context.context_length());
  return HttpResponse{.body = out.dump()};
}

/// {"tokens": ids or [ids], "skip_special_tokens": true} -> {"text"}; an array of texts for an array of arrays.
Reply detokenize(ServerContext& context, const Call& call) {
  const Tokenizer* tokenizer = context.tokenizer();
  if (tokenizer == nullptr) return no_tokenizer();
  std::string model;
  bool skip_special = true;
  const Json* tokens = call.body.find("tokens");
  const std::vector<Field> fields = {{"tokens", NoEffect{}}, {"model", &model, 0, 1024}, {"skip_special_tokens", &skip_special}};
  if (Fault fault = read_fields(call.body, fields)) return error_response(*fault);
  if (Fault fault = check_model(context, model)) return error_response(*fault);
  if (tokens == nullptr || !tokens->is_array()) return error_response(bad_field("tokens", "must be an array of token ids"));
  const bool many = !tokens->as_array().empty() && tokens->as_array().front().is_array();
  Json texts = Json::array(), out;
  for (const Json& item : many ? tokens->as_array() : Json::Array{*tokens}) {
    std::vector<TokenId> ids;
    if (Fault fault = read_ids(item, "tokens", context.vocab(), ids)) return error_response(*fault);
    texts.push(tokenizer->decode(ids, skip_special));
  }
  out.set("text", many ? std::move(texts) : texts.as_array().front());
  return HttpResponse{.body = out.dump()};
}

}  // namespace lamina::server
