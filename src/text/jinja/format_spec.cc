#include "text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/strings.h"
#include "text/jinja/print.h"
#include "text/jinja/text_search.h"

namespace lamina::jinja {
namespace {

bool one_of(char c, std::string_view these) { return c != '\0' && these.find(c) != these.npos; }

std::string digits_in_base(Integer value, int base, bool upper) {
  std::string digits;
  do {
    const int digit = std::abs(static_cast<int>(value % base));
    digits += static_cast<char>(digit < 10 ? '0' + digit : (upper ? 'A' : 'a') + digit - 10);
    value /= base;
  } while (value != 0);
  std::ranges::reverse(digits);
  return digits;
}

struct Number {
  bool negative = false;
  std::string prefix;  // 0x
  std::string digits;  // of the whole part
  std::string rest;    // point, fraction, exponent, %
};

Result<Number> integer_number(const FormatSpec& spec, Integer value) {
  const char type = spec.type == '\0' || spec.type == 'n' ? 'd' : spec.type;
  const int base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'd' ? 10 : 16;
  Number number{.negative = value < 0, .digits = digits_in_base(value, base, type == 'X')};
  if (spec.precision >= 0)
    number.digits.insert(0, std::max<size_t>(number.digits.size(), static_cast<size_t>(spec.precision)) - number.digits.size(), '0');
  if (spec.alternate && base != 10) number.prefix = {'0', type};
  return number;
}

Result<Number> float_number(const FormatSpec& spec, double value) {
  const bool percent = spec.type == '%';
  const bool shortest = spec.type == '\0' && spec.precision < 0;
  const double shown = std::abs(percent ? value * 100 : value);
  std::string text;
  if (shortest) {
    text = float_text(shown);
  } else {
    const char conversion = percent ? 'f' : spec.type == '\0' || spec.type == 'n' ? 'g' : spec.type;
    const char format[] = {
        '%', spec.alternate ? '#' : '.', spec.alternate ? '.' : '*', spec.alternate ? '*' : conversion, spec.alternate ? conversion : '\0',
        '\0'};
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    const int size = std::snprintf(nullptr, 0, format, precision, shown);
    text.resize(static_cast<size_t>(size) + 1);
    std::snprintf(text.data(), text.size(), format, precision, shown);
    text.pop_back();
  }
  if (percent) text += '%';
  const size_t whole = std::isfinite(value) ? std::min(text.find_first_not_of("0123456789"), text.size()) : text.size();
  return Number{.negative = std::signbit(value) && !std::isnan(value), .digits = text.substr(0, whole), .rest = text.substr(whole)};
}

void group_thousands(std::string& digits, char separator, int group) {
  for (int at = static_cast<int>(digits.size()) - group; at > 0; at -= group) digits.insert(static_cast<size_t>(at), 1, separator);
}

void add_padding(const FormatSpec& spec, int64_t count, TextBuilder& out) {
  for (; count > 0; --count) out.add(spec.fill);
}

void add_aligned(const FormatSpec& spec, char align, const Text& text, TextBuilder& out) {
  const int64_t room = std::max<int64_t>(spec.width - text.code_points(), 0);
  const int64_t before = align == '<' ? 0 : align == '^' ? room / 2 : room;
  add_padding(spec, before, out);
  out.add(text);
  add_padding(spec, room - before, out);
}

void add_number(const FormatSpec& spec, Number number, TextBuilder& out) {
  if (spec.grouping != '\0') group_thousands(number.digits, spec.grouping, one_of(spec.type, "boxX") ? 4 : 3);
  std::string head = number.negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += number.prefix;
  const std::string body = number.digits + number.rest;
  if (spec.align != '=') return add_aligned(spec, spec.align == '\0' ? '>' : spec.align, plain_text(head + body), out);
  out.add(head);
  add_padding(spec, spec.width - static_cast<int64_t>(head.size() + body.size()), out);
  out.add(body);
}

Status add_text(Runtime& runtime, const FormatSpec& spec, const Text& text, TextBuilder& out) {
  if (spec.align == '=') return error("the format '=' is for numbers, not for text");
  Text shown = text;
  if (spec.precision >= 0 && spec.precision < text.code_points()) shown = slice(runtime.heap(), text, 0, text.offset_of(spec.precision));
  add_aligned(spec, spec.align == '\0' ? '<' : spec.align, shown, out);
  return {};
}

}  // namespace

Result<int> format_number(std::string_view text, size_t& at) {
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return -1;
  int number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    number = number * 10 + (text[at] - '0');
    if (number > kMaxFormatWidth) return error("a width or precision in a format is over ", kMaxFormatWidth);
  }
  return number;
}

Result<FormatSpec> parse_format_spec(std::string_view spec) {
  constexpr std::string_view kAligns = "<>^=";
  FormatSpec out;
  size_t at = 0;
  const size_t first = spec.empty() ? 0 : next_character(spec, 0);
  const auto peek = [&] { return at < spec.size() ? spec[at] : '\0'; };
  if (first < spec.size() && one_of(spec[first], kAligns)) {
    out.fill = spec.substr(0, first);
    out.align = spec[first];
    at = first + 1;
  } else if (one_of(peek(), kAligns)) {
    out.align = spec[at++];
  }
  if (one_of(peek(), "+- ")) out.sign = spec[at++];
  if (peek() == '#') out.alternate = true, ++at;
  if (peek() == '0') {
    if (out.align == '\0') out.align = '=', out.fill = "0";
    ++at;
  }
  LAMINA_ASSIGN(const int width, format_number(spec, at));
  out.width = std::max(width, 0);
  if (one_of(peek(), ",_")) out.grouping = spec[at++];
  if (peek() == '.') {
    ++at;
    LAMINA_ASSIGN(out.precision, format_number(spec, at));
    if (out.precision < 0) return error("the format '", spec, "' lacks a precision");
  }
  if (at < spec.size()) out.type = spec[at++];
  if (at < spec.size()) return error("the format '", spec, "' is not understood");
  return out;
}

Status add_formatted(Runtime& runtime, const FormatSpec& spec, const Value& value, TextBuilder& out) {
  LAMINA_TRY(runtime.room(static_cast<double>(out.size())));
  runtime.work_bytes(64 + static_cast<size_t>(spec.width));
  if (value.text() != nullptr && (spec.type == '\0' || spec.type == 's')) return add_text(runtime, spec, *value.text(), out);
  const bool integral = value.is_integral() && (spec.type == '\0' || one_of(spec.type, "dboxXn"));
  if (integral) {
    LAMINA_ASSIGN(Number number, integer_number(spec, value.integer()));
    add_number(spec, std::move(number), out);
    return {};
  }
  if (value.is_number() && (spec.type == '\0' || one_of(spec.type, "eEfFgG%n"))) {
    LAMINA_ASSIGN(Number number, float_number(spec, value.number()));
    add_number(spec, std::move(number), out);
    return {};
  }
  if (spec.type == '\0') return error("a ", type_name(value), " takes no format");
  return error("the format type '", spec.type, "' does not fit a ", type_name(value));
}

}  // namespace lamina::jinja
