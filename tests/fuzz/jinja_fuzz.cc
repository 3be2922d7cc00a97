// A chat template: parsed, then rendered with a small conversation, as ChatTemplate does it.
#include "base/check.h"
#include "base/json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace {

lamina::Json parsed(const char* text) {
  auto json = lamina::parse_json(text, "conversation");
  LAMINA_CHECK(json.ok(), "the fixed conversation is JSON");
  return std::move(*json);
}

void define(lamina::jinja::Interpreter& interpreter, lamina::jinja::Runtime& runtime, std::string_view name, const lamina::Json& json) {
  if (const auto value = runtime.from_json(json, true); value.ok()) interpreter.define(name, *value);
}

/// Most of the account is spent before: what is left is some ten milliseconds of an instrumented build.
constexpr uint64_t kSteps = 100'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const lamina::Json messages = parsed(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is the weather in Zürich?"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": {"city": "Zürich"}}}]},
    {"role": "tool", "content": "7.5", "tool_call_id": "c1"},
    {"role": "user", "content": "Thanks <|im_end|>"}])");
  static const lamina::Json tools = parsed(R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])");
  const auto compiled = lamina::jinja::parse_template({reinterpret_cast<const char*>(data), size}, "template");
  if (!compiled.ok()) return 0;
  lamina::jinja::Runtime runtime(std::tm{});
  runtime.work(lamina::jinja::kMaxSteps - kSteps);
  lamina::jinja::Interpreter interpreter(**compiled, runtime);
  define(interpreter, runtime, "messages", messages);
  define(interpreter, runtime, "tools", tools);
  define(interpreter, runtime, "add_generation_prompt", lamina::Json(true));
  interpreter.define("bos_token", runtime.text("<s>"));
  lamina::jinja::TextBuilder out;
  (void)interpreter.run(out);
  return 0;
}
