// Methods of str.
#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "base/utf8.h"
#include "text/jinja/compare.h"
#include "text/jinja/format.h"
#include "text/jinja/methods.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode_text.h"

namespace lamina::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

template <Case wanted>
Result<Value> change_case(Runtime& runtime, const Value& self, const Bound&) {
  return in_case(runtime, *self.text(), wanted);
}

template <bool left, bool right>
Result<Value> strip_method(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* characters, text_or(arguments, 0, nullptr));
  return strip(runtime, *self.text(), characters, left, right);
}

/// Whether the text is not empty and `holds` for every character.
template <class Holds>
Value every(const Value& self, Holds holds) {
  const std::string_view text = self.text()->bytes;
  for (size_t at = 0; at < text.size();)
    if (!holds(next_code_point(text, at))) return Value(false);
  return Value(!text.empty());
}

template <bool (*holds)(char32_t)>
Result<Value> is_all(Runtime& runtime, const Value& self, const Bound&) {
  runtime.work_bytes(4 * self.text()->bytes.size());
  return every(self, holds);
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c); }

Result<Value> isascii(Runtime&, const Value& self, const Bound&) { return Value(self.text()->ascii()); }

/// islower(), isupper(): some cased character, and all of them in that case.
template <bool upper>
Result<Value> is_in_case(Runtime& runtime, const Value& self, const Bound&) {
  const std::string_view text = self.text()->bytes;
  runtime.work_bytes(4 * text.size());
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return Value(false);
    cased |= upper ? is_upper(c) : is_lower(c);
  }
  return Value(cased);
}

/// Cased characters are capital at the start of a word and small inside.
Result<Value> istitle(Runtime& runtime, const Value& self, const Bound&) {
  const std::string_view text = self.text()->bytes;
  runtime.work_bytes(4 * text.size());
  bool inside = false, cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    const bool capital = is_upper(c) || is_title(c);
    if (capital ? inside : is_lower(c) && !inside) return Value(false);
    inside = capital || is_lower(c);
    cased |= inside;
  }
  return Value(cased);
}

/// The part of `text` that the arguments start and end (places 1 and 2) leave; none when start lies behind the end.
Result<std::optional<Piece>> window(const Text& text, const Bound& arguments) {
  const int64_t size = text.code_points();
  LAMINA_ASSIGN(int64_t start, integer_or(arguments, 1, 0));
  LAMINA_ASSIGN(int64_t end, integer_or(arguments, 2, size));
  for (int64_t* bound : {&start, &end})
    if (*bound < 0) *bound = std::max<int64_t>(*bound + size, 0);
  end = std::min(end, size);
  if (start > end) return std::optional<Piece>();
  return std::optional(Piece{text.offset_of(start), text.offset_of(end)});
}

/// The index of argument 0 in the text, from the left or right, or -1.
Result<int64_t> find_index(Runtime& runtime, const Text& text, const Bound& arguments, bool last) {
  LAMINA_ASSIGN(const Text* sought, text_of(arguments.value(0)));
  LAMINA_ASSIGN(const std::optional<Piece> part, window(text, arguments));
  runtime.work_bytes((last ? 4 : 2) * text.bytes.size());
  if (!part) return int64_t{-1};
  const std::string_view before_end = text.bytes.substr(0, part->end);
  const size_t found =
      last ? rfind_bytes(before_end, sought->bytes, before_end.size()) : find_bytes(before_end, sought->bytes, part->begin);
  if (found == kNone || found < part->begin) return int64_t{-1};
  return text.index_at(found);
}

template <bool last>
Result<Value> find_method_of(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const int64_t index, find_index(runtime, *self.text(), arguments, last));
  return Value(Integer{index});
}

template <bool last>
Result<Value> index_method(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const int64_t index, find_index(runtime, *self.text(), arguments, last));
  if (index < 0) return error("the text to be found is not in the text");
  return Value(Integer{index});
}

Result<Value> count_method(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* sought, text_of(arguments.value(0)));
  LAMINA_ASSIGN(const std::optional<Piece> part, window(*self.text(), arguments));
  runtime.work_bytes(self.text()->bytes.size());
  if (!part) return Value(Integer{0});
  const Text inside = slice(runtime.heap(), *self.text(), part->begin, part->end);
  if (sought->bytes.empty()) return Value(Integer{inside.code_points() + 1});
  return Value(Integer{static_cast<int64_t>(split_at(inside.bytes, sought->bytes, -1).size()) - 1});
}

/// startswith() and endswith(): argument 0 is text or a tuple of texts.
template <bool at_end>
Result<Value> has_affix(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::optional<Piece> part, window(*self.text(), arguments));
  const Value& given = arguments.value(0);
  const bool tuple = given.list() != nullptr && given.list()->type == List::Type::kTuple;
  const std::span<const Value> affixes = tuple ? given.list()->items : std::span<const Value>(&given, 1);
  for (const Value& affix : affixes) {
    LAMINA_ASSIGN(const Text* text, text_of(affix));
    runtime.work_bytes(64 + text->bytes.size());
    if (!part) continue;
    const std::string_view inside = self.text()->bytes.substr(part->begin, part->end - part->begin);
    if (at_end ? inside.ends_with(text->bytes) : inside.starts_with(text->bytes)) return Value(true);
  }
  return Value(false);
}

template <bool at_end>
Result<Value> remove_affix(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* affix, text_of(arguments.value(0)));
  const Text& text = *self.text();
  if (affix->bytes.empty() || !(at_end ? text.bytes.ends_with(affix->bytes) : text.bytes.starts_with(affix->bytes))) return self;
  const size_t size = affix->bytes.size(), whole = text.bytes.size();
  return runtime.text(slice(runtime.heap(), text, at_end ? 0 : size, at_end ? whole - size : whole));
}

template <bool from_right>
Result<Value> split_method(Runtime& runtime, const Value& self, const Bound& arguments) {
  const Text& text = *self.text();
  LAMINA_ASSIGN(const Text* separator, text_or(arguments, 0, nullptr));
  LAMINA_ASSIGN(const int64_t most, integer_or(arguments, 1, -1));
  if (separator == nullptr)
    return list_of_pieces(runtime, text, from_right ? rsplit_space(text.bytes, most) : split_space(text.bytes, most));
  if (separator->bytes.empty()) return error("split() by an empty separator");
  const std::vector<Piece> pieces =
      from_right ? rsplit_at(text.bytes, separator->bytes, most) : split_at(text.bytes, separator->bytes, most);
  return list_of_pieces(runtime, text, pieces);
}

template <bool last>
Result<Value> partition(Runtime& runtime, const Value& self, const Bound& arguments) {
  const Text& text = *self.text();
  LAMINA_ASSIGN(const Text* separator, text_of(arguments.value(0)));
  if (separator->bytes.empty()) return error("partition() by an empty separator");
  runtime.work_bytes(text.bytes.size());
  const size_t whole = text.bytes.size();
  const size_t found = last ? rfind_bytes(text.bytes, separator->bytes, whole) : find_bytes(text.bytes, separator->bytes, 0);
  const size_t begin = found != kNone ? found : last ? 0 : whole;
  const size_t end = found != kNone ? found + separator->bytes.size() : begin;
  const Piece parts[] = {{0, begin}, {begin, end}, {end, whole}};
  std::vector<Value> items;
  for (const Piece& part : parts) items.push_back(runtime.text(slice(runtime.heap(), text, part.begin, part.end)));
  return runtime.list(items, List::Type::kTuple);
}

Result<Value> splitlines(Runtime& runtime, const Value& self, const Bound& arguments) {
  return list_of_pieces(runtime, *self.text(), lines(self.text()->bytes, flag_or(arguments, 0, false)));
}

Result<Value> replace(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* old, text_of(arguments.value(0)));
  LAMINA_ASSIGN(const Text* with, text_of(arguments.value(1)));
  LAMINA_ASSIGN(const int64_t most, integer_or(arguments, 2, -1));
  return replaced(runtime, *self.text(), *old, *with, most);
}

Result<Value> join(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, arguments.value(0)));
  for (const Value& each : items)
    if (each.text() == nullptr) return error("join() needs texts, not a ", type_name(each));
  if (!self.text()->markup) return joined(runtime, *self.text(), items);
  std::vector<Value> safe;
  for (const Value& each : items) safe.push_back(runtime.text(escaped(runtime.heap(), *each.text())));
  LAMINA_ASSIGN(const Value text, joined(runtime, *self.text(), safe));
  Text markup = *text.text();
  markup.markup = true;
  return runtime.text(markup);
}

/// ljust(), rjust(), center(): argument 0 is the width, 1 the fill character.
enum class Side { kLeft, kRight, kBoth };
template <Side side>
Result<Value> justify(Runtime& runtime, const Value& self, const Bound& arguments) {
  const Text space = plain_text(" ");
  LAMINA_ASSIGN(const int64_t width, integer_of(arguments.value(0)));
  LAMINA_ASSIGN(const Text* fill, text_or(arguments, 1, &space));
  if (fill->code_points() != 1) return error("the fill must be one character");
  if (side == Side::kBoth) return centered(runtime, *self.text(), width, fill->bytes);
  const int64_t room = std::max(width, self.text()->code_points()) - self.text()->code_points();
  return padded(runtime, *self.text(), fill->bytes, side == Side::kRight ? room : 0, side == Side::kLeft ? room : 0);
}

Result<Value> zfill(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const int64_t width, integer_of(arguments.value(0)));
  const Text& text = *self.text();
  const size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  const Text digits = slice(runtime.heap(), text, sign, text.bytes.size());
  const int64_t room = std::max(width, text.code_points()) - text.code_points();
  LAMINA_ASSIGN(const Value filled, padded(runtime, digits, "0", room, 0));
  TextBuilder out;
  out.add(text, 0, sign);
  out.add(*filled.text());
  return runtime.text(out, text.markup);
}

Result<Value> expandtabs(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const int64_t size, integer_or(arguments, 0, 8));
  const Text& text = *self.text();
  if (size > kMaxFormatWidth) return error("a tab of ", size, " columns; at most ", kMaxFormatWidth, " are allowed");
  TextBuilder out;
  int64_t column = 0;
  for (size_t at = 0; at < text.bytes.size();) {
    const size_t next = next_character(text.bytes, at);
    const char c = text.bytes[at];
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.add(std::string(static_cast<size_t>(spaces), ' '), TextBuilder::user_at(text, at));
      LAMINA_TRY(runtime.room(static_cast<double>(out.size())));
      column += spaces;
    } else {
      out.add(text, at, next);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at = next;
  }
  return runtime.text(out, text.markup);
}

Result<Value> format(Runtime& runtime, const Value& self, const Bound& arguments) {
  return brace_format(runtime, *self.text(), arguments.all);
}

Result<Value> format_map(Runtime& runtime, const Value& self, const Bound& arguments) {
  const Dict* dict = arguments.value(0).dict();
  if (dict == nullptr) return error("format_map() needs a dict, not a ", type_name(arguments.value(0)));
  std::vector<NamedArgument> named;
  for (const Dict::Entry& entry : dict->entries)
    if (entry.key.text() != nullptr) named.push_back({entry.key.text()->bytes, entry.value});
  return brace_format(runtime, *self.text(), {{}, named});
}

constexpr Native kTextMethods[] = {
    {"capitalize", change_case<Case::kCapitalized>},
    {"casefold", change_case<Case::kFolded>},
    {"center", justify<Side::kBoth>, 1, {"width", "fillchar"}},
    {"count", count_method, 1, {"sub", "start", "end"}},
    {"endswith", has_affix<true>, 1, {"suffix", "start", "end"}},
    {"expandtabs", expandtabs, 0, {"tabsize"}},
    {"find", find_method_of<false>, 1, {"sub", "start", "end"}},
    {"format", format, kAnyArguments},
    {"format_map", format_map, 1, {"mapping"}},
    {"index", index_method<false>, 1, {"sub", "start", "end"}},
    {"isalnum", is_all<is_alphanumeric>},
    {"isalpha", is_all<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", is_all<is_decimal>},
    {"isdigit", is_all<is_digit>},
    {"islower", is_in_case<false>},
    {"isnumeric", is_all<is_numeric>},
    {"isspace", is_all<is_space>},
    {"istitle", istitle},
    {"isupper", is_in_case<true>},
    {"join", join, 1, {"iterable"}},
    {"ljust", justify<Side::kLeft>, 1, {"width", "fillchar"}},
    {"lower", change_case<Case::kLower>},
    {"lstrip", strip_method<true, false>, 0, {"chars"}},
    {"partition", partition<false>, 1, {"sep"}},
    {"removeprefix", remove_affix<false>, 1, {"prefix"}},
    {"removesuffix", remove_affix<true>, 1, {"suffix"}},
    {"replace", replace, 2, {"old", "new", "count"}},
    {"rfind", find_method_of<true>, 1, {"sub", "start", "end"}},
    {"rindex", index_method<true>, 1, {"sub", "start", "end"}},
    {"rjust", justify<Side::kRight>, 1, {"width", "fillchar"}},
    {"rpartition", partition<true>, 1, {"sep"}},
    {"rsplit", split_method<true>, 0, {"sep", "maxsplit"}},
    {"rstrip", strip_method<false, true>, 0, {"chars"}},
    {"split", split_method<false>, 0, {"sep", "maxsplit"}},
    {"splitlines", splitlines, 0, {"keepends"}},
    {"startswith", has_affix<false>, 1, {"prefix", "start", "end"}},
    {"strip", strip_method<true, true>, 0, {"chars"}},
    {"swapcase", change_case<Case::kSwapped>},
    {"title", change_case<Case::kTitle>},
    {"upper", change_case<Case::kUpper>},
    {"zfill", zfill, 1, {"width"}},
};
static_assert(sorted_by_name(kTextMethods));

}  // namespace

const Native* find_text_method(std::string_view name) { return find_native(kTextMethods, name); }

}  // namespace lamina::jinja
