#include "server/chat_prompt.h"

#include <algorithm>

#include "base/strings.h"

namespace lamina::server {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

std::string role_names() {
  std::vector<std::string> names(std::begin(kRoles), std::end(kRoles));
  return join(names, ", ");
}

/// The text of a content that is an array of parts.
Fault join_parts(const Json& parts, const std::string& name, std::string& text) {
  bool first = true;
  for (const Json& part : parts.as_array()) {
    const Json* type = part.find("type");
    const Json* piece = part.find("text");
    if (type == nullptr || !type->is_string()) return bad_field(name, "has a part without a type");
    if (type->as_string() != "text") return bad_field(name, cat("has a part of type ", shown(*type), ": only text is supported"));
    if (piece == nullptr || !piece->is_string()) return bad_field(name, "has a text part without text");
    if (!first) text += '\n';
    text += piece->as_string();
    first = false;
  }
  return std::nullopt;
}

/// Arguments of a tool call come as text, and templates want the object.
void parse_arguments(Json& call) {
  if (!call.is_object()) return;
  for (auto& [key, value] : call.as_object()) {
    if (key == "function") parse_arguments(value);
    if (key != "arguments" || !value.is_string()) continue;
    if (Result<Json> parsed = parse_json(value.as_string(), key); parsed.ok()) value = std::move(*parsed);
  }
}

Fault read_message(const Json& value, const std::string& name, Json& out) {
  if (!value.is_object()) return bad_field(name, cat("must be an object, not ", value.kind_name()));
  const Json* role = value.find("role");
  const Json* content = value.find("content");
  const Json* calls = value.find("tool_calls");
  if (role == nullptr || !role->is_string() || std::find(std::begin(kRoles), std::end(kRoles), role->as_string()) == std::end(kRoles)) {
    return bad_field(cat(name, ".role"), cat("must be one of ", role_names(), role == nullptr ? "" : cat(", not ", shown(*role))));
  }
  const bool calling = role->as_string() == "assistant" && calls != nullptr && calls->is_array() && !calls->as_array().empty();
  const std::string content_name = cat(name, ".content");
  if ((content == nullptr || content->is_null()) && !calling) return bad_field(content_name, "is missing");
  out = value;
  if (content != nullptr && content->is_array()) {
    std::string text;
    if (Fault fault = join_parts(*content, content_name, text)) return fault;
    out.set("content", std::move(text));
  } else if (content != nullptr && !content->is_null() && !content->is_string()) {
    return bad_field(content_name, cat("must be a string or an array of text parts, not ", content->kind_name()));
  }
  if (!calling) return std::nullopt;
  Json parsed = *calls;
  for (Json& call : parsed.as_array()) parse_arguments(call);
  out.set("tool_calls", std::move(parsed));
  return std::nullopt;
}

}  // namespace

Fault read_messages(const Json& value, std::string_view name, Json& out) {
  if (!value.is_array()) return bad_field(name, cat("must be an array of messages, not ", value.kind_name()));
  for (size_t i = 0; i < value.as_array().size(); ++i) {
    Json message;
    if (Fault fault = read_message(value.as_array()[i], cat(name, "[", i, "]"), message)) return fault;
    out.push(std::move(message));
  }
  return std::nullopt;
}

Fault read_template_variables(const Json& value, std::string_view name, Json& variables) {
  if (!value.is_object()) return bad_field(name, cat("must be an object, not ", value.kind_name()));
  for (const auto& [key, item] : value.as_object()) {
    if (key == "messages" || key == "tools") return bad_field(name, cat("must not hold `", key, "`"));
    variables.set(key, item);
  }
  return std::nullopt;
}

Fault read_template_variable(const Json& value, std::string_view name, Json& variables) {
  variables.set(name, value);
  return std::nullopt;
}

Fault render_chat(const ServerContext& context, const ChatInput& input, Prompt& out) {
  const Tokenizer* tokenizer = context.tokenizer();
  if (tokenizer == nullptr) return bad_field("messages", "cannot be encoded: this model has no tokenizer.json");
  const ChatTemplates& templates = context.engine.chat_templates();
  if (templates.empty()) {
    return ApiError{.message = "this model has no chat template; the server's flag --chat-template gives it one",
                    .code = "no_chat_template"};
  }
  const Result<const ChatTemplate*> chosen = templates.choose(false);
  if (!chosen.ok()) return ApiError{.message = chosen.error().message, .code = "no_chat_template"};
  const Result<std::vector<TemplateSpan>> spans = (*chosen)->render({.messages = input.messages,
                                                                     .add_generation_prompt = input.add_generation_prompt,
                                                                     .extra = &input.variables,
                                                                     .special_tokens = templates.special_tokens(),
                                                                     .now = local_time()});
  if (!spans.ok()) return ApiError{.message = spans.error().message, .param = "messages", .code = "chat_template_error"};
  Result<std::vector<TokenId>> ids = encode_spans(*tokenizer, *spans);
  if (!ids.ok()) return bad_field("messages", cat("cannot be encoded: ", ids.error().message));
  out.ids = std::move(*ids);
  out.text = joined_text(*spans);
  return std::nullopt;
}

}  // namespace lamina::server
