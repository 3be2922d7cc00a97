// Filters that make text.
#include <algorithm>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/jinja/compare.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode_text.h"
#include "text/unicode_class.h"

namespace lamina::jinja {
namespace {

Result<Value> with_case(Runtime& runtime, const Value& self, Case wanted) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  return in_case(runtime, *text, wanted);
}

bool is_word(char32_t c) { return c == '_' || text::is_word_character(c); }

}  // namespace

Result<Value> filter_capitalize(Runtime& runtime, const Value& self, const Bound&) { return with_case(runtime, self, Case::kCapitalized); }
Result<Value> filter_lower(Runtime& runtime, const Value& self, const Bound&) { return with_case(runtime, self, Case::kLower); }
Result<Value> filter_upper(Runtime& runtime, const Value& self, const Bound&) { return with_case(runtime, self, Case::kUpper); }

Result<Value> filter_center(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  LAMINA_ASSIGN(const int64_t width, integer_or(arguments, 0, 80));
  return centered(runtime, *text, width, " ");
}

Result<Value> filter_escape(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  return runtime.text(escaped(runtime.heap(), *text));
}

Result<Value> filter_forceescape(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  Text plain = *text;
  plain.markup = false;
  return runtime.text(escaped(runtime.heap(), plain));
}

Result<Value> filter_format(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  const Arguments& all = arguments.all;
  if (!all.positional.empty() && !all.named.empty()) return error("format takes values in order or by name, not both");
  Value values;
  if (all.named.empty()) {
    LAMINA_ASSIGN(values, runtime.list(all.positional, List::Type::kTuple));
  } else {
    std::vector<Dict::Entry> entries;
    for (const NamedArgument& named : all.named) entries.push_back({runtime.text(named.name), named.value});
    LAMINA_ASSIGN(values, runtime.dict(std::move(entries)));
  }
  return percent_format(runtime, *text, values);
}

Result<Value> filter_indent(Runtime& runtime, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) return undefined_error(self);
  LAMINA_ASSIGN(const Text* text, text_of(self));
  const bool by_text = arguments.has(0) && arguments.value(0).text() != nullptr;
  LAMINA_ASSIGN(const int64_t width, by_text ? Result<int64_t>(0) : integer_or(arguments, 0, 4));
  if (width > kMaxFormatWidth) return error("indent by ", width, "; at most ", kMaxFormatWidth, " are allowed");
  const std::string spaces(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  const Text indention = by_text ? *arguments.value(0).text() : plain_text(spaces);
  const bool first = flag_or(arguments, 1, false), blank = flag_or(arguments, 2, false);
  std::vector<Piece> all = lines(text->bytes);
  if (text->bytes.empty() || text->bytes.size() > all.back().end) all.push_back({text->bytes.size(), text->bytes.size()});
  TextBuilder out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) out.add("\n");
    const bool indents = i == 0 ? first : blank || all[i].begin < all[i].end;
    if (indents) out.add(indention);
    out.add(*text, all[i].begin, all[i].end);
    runtime.work_bytes(64);
    LAMINA_TRY(runtime.room(static_cast<double>(out.size())));
  }
  runtime.work_bytes(out.size());
  return runtime.text(out, text->markup);
}

Result<Value> filter_replace(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  LAMINA_ASSIGN(const Text* old, to_text(runtime, arguments.value(0)));
  LAMINA_ASSIGN(const Text* with, to_text(runtime, arguments.value(1)));
  LAMINA_ASSIGN(const int64_t most, integer_or(arguments, 2, -1));
  Text plain = *text;
  plain.markup = false;
  return replaced(runtime, plain, *old, *with, most);
}

Result<Value> filter_safe(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  Text markup = *text;
  markup.markup = true;
  return runtime.text(markup);
}

Result<Value> filter_string(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  return Value(text);
}

/// Words begin at the start and behind white space, hyphens and opening brackets.
Result<Value> filter_title(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  runtime.work_bytes(32 * text->bytes.size());
  Heap& heap = runtime.heap();
  TextBuilder out;
  for (size_t begin = 0; begin < text->bytes.size();) {
    size_t end = begin;
    bool separates = false;
    while (end < text->bytes.size() && !separates) {
      const char32_t c = next_code_point(text->bytes, end);
      separates = is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    }
    const size_t first = next_character(text->bytes, begin);
    out.add(jinja::with_case(heap, slice(heap, *text, begin, first), Case::kUpper));
    out.add(jinja::with_case(heap, slice(heap, *text, first, end), Case::kLower));
    begin = end;
  }
  return runtime.text(out);
}

Result<Value> filter_trim(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  LAMINA_ASSIGN(const Text* characters, text_or(arguments, 0, nullptr));
  return strip(runtime, *text, characters, true, true);
}

Result<Value> filter_truncate(Runtime& runtime, const Value& self, const Bound& arguments) {
  const Text dots = plain_text("...");
  LAMINA_ASSIGN(const int64_t length, integer_or(arguments, 0, 255));
  LAMINA_ASSIGN(const Text* end, text_or(arguments, 2, &dots));
  LAMINA_ASSIGN(const int64_t leeway, integer_or(arguments, 3, 5));
  const int64_t room = length - end->code_points();
  if (room < 0 || leeway < 0) return error("truncate needs a length of at least ", end->code_points(), " and a leeway of at least 0");
  LAMINA_ASSIGN(const int64_t size, jinja::length(self));
  if (size - length <= leeway) return self;
  LAMINA_ASSIGN(const Text* text, text_of(self));
  size_t cut = text->offset_of(room);
  if (!flag_or(arguments, 1, false)) cut = std::min(cut, rfind_bytes(text->bytes.substr(0, cut), " ", cut));
  TextBuilder out;
  out.add(*text, 0, cut);
  out.add(text->markup ? escaped(runtime.heap(), *end) : *end);
  return runtime.text(out, text->markup);
}

Result<Value> filter_urlencode(Runtime& runtime, const Value& self, const Bound&) {
  const bool scalar = self.text() != nullptr || self.is_number() || self.is_none() || self.is_undefined();
  if (!scalar) return error("urlencode of a ", type_name(self), " is not supported");
  constexpr std::string_view kKept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/";
  constexpr char kHex[] = "0123456789ABCDEF";
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  TextBuilder out;
  for (size_t at = 0; at < text->bytes.size(); ++at) {
    const char c = text->bytes[at];
    const auto byte = static_cast<uint8_t>(c);
    const char code[] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    out.add_instead(*text, at, kKept.find(c) != kKept.npos ? std::string_view(&c, 1) : std::string_view(code, 3));
  }
  runtime.work_bytes(16 * text->bytes.size());
  return runtime.text(out);
}

Result<Value> filter_wordcount(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  runtime.work_bytes(4 * text->bytes.size());
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text->bytes.size();) {
    const bool word = is_word(next_code_point(text->bytes, at));
    words += word && !inside;
    inside = word;
  }
  return Value(Integer{words});
}

}  // namespace lamina::jinja
