#include "text/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/jinja/ast.h"
#include "text/jinja/unicode_text.h"

namespace lamina::jinja {
namespace {

template <class Items, class PrintItem>
Status print_items(Runtime& runtime, const Items& items, TextBuilder& out, PrintItem print_item) {
  for (size_t i = 0; i < items.size() && !runtime.exhausted(); ++i) {
    if (i > 0) out.add(", ");
    LAMINA_TRY(print_item(items[i]));
  }
  return {};
}

Status print_list(Runtime& runtime, const List& list, TextBuilder& out) {
  const bool view = list.type >= List::Type::kKeys && list.type <= List::Type::kItems;
  const bool tuple = list.type == List::Type::kTuple || list.type == List::Type::kGroup;
  if (view) {
    out.add(type_name(Value(&list)));
    out.add("(");
  }
  out.add(tuple ? "(" : "[");
  LAMINA_TRY(print_items(runtime, list.items, out, [&](const Value& item) { return print_repr(runtime, item, out); }));
  if (tuple && list.items.size() == 1) out.add(",");
  out.add(tuple ? ")" : view ? "])" : "]");
  return {};
}

Status print_dict(Runtime& runtime, const Dict& dict, TextBuilder& out) {
  const auto print_entry = [&](const Dict::Entry& entry) -> Status {
    LAMINA_TRY(print_repr(runtime, entry.key, out));
    out.add(": ");
    return print_repr(runtime, entry.value, out);
  };
  out.add("{");
  LAMINA_TRY(print_items(runtime, dict.entries, out, print_entry));
  out.add("}");
  return {};
}

void print_range(const Range& range, TextBuilder& out) {
  out.add(cat("range(", range.start, ", ", range.stop));
  if (range.step != 1) out.add(cat(", ", range.step));
  out.add(")");
}

/// How a character that repr() does not show stands in it; empty: it is shown.
std::string hidden_character(char32_t c) {
  constexpr char kHex[] = "0123456789abcdef";
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (is_printable(c)) return {};
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  std::string out = digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int i = digits - 1; i >= 0; --i) out += kHex[c >> (4 * i) & 15];
  return out;
}

void print_quoted(const Text& text, TextBuilder& out) {
  const bool single = text.bytes.find('\'') == std::string_view::npos || text.bytes.find('"') != std::string_view::npos;
  const std::string_view quote = single ? "'" : "\"";
  if (text.markup) out.add("Markup(");
  out.add(quote);
  size_t shown = 0;  // up to where `out` has the text
  for (size_t next = 0; next < text.bytes.size();) {
    const size_t at = next;
    const char32_t c = next_code_point(text.bytes, next);
    std::string instead = c >= 0x20 && c < 0x7F ? std::string() : hidden_character(c);
    if (c == '\\' || (c == '\'' && single)) instead = {'\\', static_cast<char>(c)};
    if (instead.empty()) continue;
    out.add(text, shown, at);
    out.add_instead(text, at, instead);
    shown = next;
  }
  out.add(text, shown, text.bytes.size());
  out.add(quote);
  if (text.markup) out.add(")");
}

}  // namespace

std::string integer_text(Integer value) {
  if (value == 0) return "0";
  std::string digits;
  for (Integer rest = value; rest != 0; rest /= 10) digits += static_cast<char>('0' + std::abs(static_cast<int>(rest % 10)));
  if (value < 0) digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[400];
  const auto scientific = std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + mark + 1 + (text[mark + 1] == '+'), text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed = std::to_chars(buffer, std::end(buffer), value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == out.npos) out += ".0";
  return out;
}

Status print(Runtime& runtime, const Value& value, TextBuilder& out) {
  if (value.is_undefined()) return {};
  if (const Text* text = value.text()) {
    runtime.work_bytes(text->bytes.size());
    out.add(*text);
    return {};
  }
  return print_repr(runtime, value, out);
}

Status print_repr(Runtime& runtime, const Value& value, TextBuilder& out) {
  runtime.work(1);
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      out.add("Undefined");
      return {};
    case Value::Kind::kNone:
      out.add("None");
      return {};
    case Value::Kind::kBool:
      out.add(value.as<bool>() ? "True" : "False");
      return {};
    case Value::Kind::kInteger:
      out.add(integer_text(value.integer()));
      return {};
    case Value::Kind::kFloat:
      out.add(float_text(value.number()));
      return {};
    case Value::Kind::kText:
      runtime.work_bytes(4 * value.text()->bytes.size());
      print_quoted(*value.text(), out);
      return {};
    case Value::Kind::kList:
      return print_list(runtime, *value.list(), out);
    case Value::Kind::kDict:
      return print_dict(runtime, *value.dict(), out);
    case Value::Kind::kRange:
      print_range(*value.range(), out);
      return {};
    case Value::Kind::kFunction:
      if (const Macro* macro = value.function()->macro; macro != nullptr && !macro->name.empty()) {
        out.add(cat("<Macro '", macro->name, "'>"));
        return {};
      }
      [[fallthrough]];
    default:
      return error("a ", type_name(value), " cannot be printed");
  }
}

Result<const Text*> to_text(Runtime& runtime, const Value& value) {
  if (const Text* text = value.text()) return text;
  TextBuilder out;
  LAMINA_TRY(print(runtime, value, out));
  return runtime.text(out).text();
}

Text escaped(Heap& heap, const Text& text) {
  if (text.markup) return text;
  TextBuilder out;
  size_t shown = 0;
  for (size_t at = text.bytes.find_first_of("&<>\"'"); at != std::string_view::npos; at = text.bytes.find_first_of("&<>\"'", at + 1)) {
    const char c = text.bytes[at];
    out.add(text, shown, at);
    out.add_instead(text, at, c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : "&#39;");
    shown = at + 1;
  }
  out.add(text, shown, text.bytes.size());
  return out.finish(heap, true);
}

}  // namespace lamina::jinja
