#include "text/chat_template.h"

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace lamina {
namespace {

using jinja::Dict;
using jinja::Runtime;
using jinja::Value;

/// Roles that APIs define. A template may write '<|' + role + '|>'.
bool is_known_role(std::string_view role) {
  constexpr std::string_view kRoles[] = {"assistant", "developer",   "document", "environment", "function",      "ipython",
                                         "model",     "observation", "system",   "tool",        "tool_response", "user"};
  return std::ranges::find(kRoles, role) != std::end(kRoles);
}

Result<Value> message_value(Runtime& runtime, const Json& message) {
  if (!message.is_object()) return runtime.from_json(message, true);
  std::vector<Dict::Entry> entries;
  for (const auto& [key, member] : message.as_object()) {
    const bool trusted = key == "role" && member.is_string() && is_known_role(member.as_string());
    LAMINA_ASSIGN(const Value value, runtime.from_json(member, !trusted));
    entries.push_back({runtime.text(jinja::Text{.bytes = key, .user = true}), value});
  }
  return runtime.dict(std::move(entries));
}

Result<Value> messages_value(Runtime& runtime, const Json& messages) {
  if (!messages.is_array()) return runtime.from_json(messages, true);
  std::vector<Value> items;
  for (const Json& message : messages.as_array()) {
    LAMINA_ASSIGN(items.emplace_back(), message_value(runtime, message));
  }
  return runtime.list(items);
}

Status define_inputs(Runtime& runtime, const ChatTemplate::Inputs& inputs, jinja::Interpreter& interpreter) {
  LAMINA_ASSIGN(const Value messages, messages_value(runtime, inputs.messages));
  interpreter.define("messages", messages);
  const Json none;
  LAMINA_ASSIGN(const Value tools, runtime.from_json(inputs.tools == nullptr ? none : *inputs.tools, true));
  interpreter.define("tools", tools);
  LAMINA_ASSIGN(const Value documents, runtime.from_json(inputs.documents == nullptr ? none : *inputs.documents, true));
  interpreter.define("documents", documents);
  interpreter.define("add_generation_prompt", Value(inputs.add_generation_prompt));
  for (const auto& [name, text] : inputs.special_tokens) interpreter.define(name, runtime.text(text));
  if (inputs.extra == nullptr || inputs.extra->is_null()) return {};
  if (!inputs.extra->is_object()) return error("the extra variables of a chat template must be an object, not ", inputs.extra->kind_name());
  for (const auto& [name, member] : inputs.extra->as_object()) {
    LAMINA_ASSIGN(const Value value, runtime.from_json(member, true));
    interpreter.define(name, value);
  }
  return {};
}

}  // namespace

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, std::string_view what) {
  LAMINA_ASSIGN(std::unique_ptr<const jinja::Template> parsed, jinja::parse_template(source, what));
  return ChatTemplate(std::move(parsed));
}

Result<std::vector<TemplateSpan>> ChatTemplate::render(const Inputs& inputs) const {
  Runtime runtime(inputs.now);
  jinja::Interpreter interpreter(*parsed_, runtime);
  LAMINA_TRY(define_inputs(runtime, inputs, interpreter));
  jinja::TextBuilder out;
  LAMINA_TRY(interpreter.run(out));
  std::vector<TemplateSpan> spans;
  for (const auto& [bytes, user] : out.runs()) spans.push_back({std::string(bytes), user});
  return spans;
}

Result<std::vector<TokenId>> encode_spans(const Tokenizer& tokenizer, std::span<const TemplateSpan> spans) {
  std::string text;
  std::vector<ByteRange> plain;
  for (const TemplateSpan& span : spans) {
    const size_t begin = text.size();
    text += span.text;
    if (span.from_user) plain.push_back({begin, text.size()});
  }
  return tokenizer.encode(text, {.add_special_tokens = false, .plain = plain});
}

std::string joined_text(std::span<const TemplateSpan> spans) {
  std::string text;
  for (const TemplateSpan& span : spans) text += span.text;
  return text;
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}

Result<std::tm> parse_time(std::string_view text) {
  std::tm out{};
  int read = 0;
  const std::string copy(text.substr(0, 32));
  const int fields = std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &out.tm_year, &out.tm_mon, &out.tm_mday, &out.tm_hour,
                                 &out.tm_min, &out.tm_sec, &read);
  out.tm_year -= 1900;
  out.tm_mon -= 1;
  std::tm whole = out;
  timegm(&whole);  // fills in the days of the week and of the year, and carries what is out of range
  const bool same = whole.tm_mon == out.tm_mon && whole.tm_mday == out.tm_mday && whole.tm_hour == out.tm_hour &&
                    whole.tm_min == out.tm_min && whole.tm_sec == out.tm_sec;
  if (fields != 6 || static_cast<size_t>(read) != text.size() || !same)
    return error("\"", text, "\" is no time such as 2025-07-04T09:08:07");
  return whole;
}

}  // namespace lamina
