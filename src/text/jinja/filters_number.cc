// Filters that make numbers.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/text_search.h"

namespace lamina::jinja {
namespace {

/// The digits of a number written as Python allows: white space around, a sign, single underscores between digits.
std::optional<std::string> bare_number(std::string_view text) {
  const Piece inside = stripped(text, nullptr, true, true);
  std::string out;
  for (size_t at = inside.begin; at < inside.end; ++at) {
    if (text[at] != '_') {
      out += text[at];
    } else if (at == inside.begin || at + 1 == inside.end || text[at - 1] == '_' || !std::isalnum(static_cast<uint8_t>(text[at - 1]))) {
      return std::nullopt;
    }
  }
  if (out.starts_with('+') && out.size() > 1 && out[1] != '-') out.erase(0, 1);
  return out;
}

/// int(text, base).
std::optional<Integer> parsed_integer(std::string_view text, int64_t base) {
  const std::optional<std::string> number = bare_number(text);
  if (!number) return std::nullopt;
  std::string_view digits = *number;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  const char letter = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefix != 0 && (base == 0 || base == prefix)) {
    digits.remove_prefix(2);
    base = prefix;
  }
  if (base == 0) base = 10;
  if (digits.empty() || base < 2 || base > 36) return std::nullopt;
  Integer value = 0;
  for (const char c : digits) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : std::isalpha(static_cast<uint8_t>(c)) != 0 ? (c | 0x20) - 'a' + 10 : 36;
    if (digit >= base || __builtin_mul_overflow(value, Integer{base}, &value) || __builtin_add_overflow(value, Integer{digit}, &value))
      return std::nullopt;
  }
  return negative ? -value : value;
}

/// float(text).
std::optional<double> parsed_float(std::string_view text) {
  const std::optional<std::string> number = bare_number(text);
  if (!number || number->empty()) return std::nullopt;
  double value = 0;
  const char* end = number->data() + number->size();
  const auto [stop, problem] = std::from_chars(number->data(), end, value);
  if (problem == std::errc::result_out_of_range && stop == end) return std::strtod(number->c_str(), nullptr);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<Value> truncated(double value) {
  if (!std::isfinite(value) || std::abs(value) > 1.7e38) return std::nullopt;
  return Value(static_cast<Integer>(value));
}

/// round(value, digits): to the nearest, of two the even one.
double rounded(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-std::max<int64_t>(digits, -400)));
    return std::isfinite(unit) ? std::nearbyint(value / unit) * unit : 0.0;
  }
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), value);
  return std::strtod(text, nullptr);
}

}  // namespace

Result<Value> filter_abs(Runtime&, const Value& self, const Bound&) {
  if (!self.is_number()) return error("abs needs a number, not a ", type_name(self));
  if (self.kind() == Value::Kind::kFloat) return Value(std::abs(self.number()));
  return self.integer() < 0 ? negated(self) : Value(self.integer());
}

Result<Value> filter_float(Runtime&, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) return undefined_error(self);
  if (self.is_number()) return Value(self.number());
  const std::optional<double> value = self.text() == nullptr ? std::nullopt : parsed_float(self.text()->bytes);
  if (value) return Value(*value);
  return arguments.has(0) ? arguments.value(0) : Value(0.0);
}

Result<Value> filter_int(Runtime& runtime, const Value& self, const Bound& arguments) {
  if (self.is_undefined()) return undefined_error(self);
  LAMINA_ASSIGN(const int64_t base, integer_or(arguments, 1, 10));
  const Value otherwise = arguments.has(0) ? arguments.value(0) : Value(Integer{0});
  if (self.is_integral()) return Value(self.integer());
  std::optional<double> number;
  if (const Text* text = self.text()) {
    runtime.work_bytes(text->bytes.size());
    if (const std::optional<Integer> value = parsed_integer(text->bytes, base)) return Value(*value);
    number = parsed_float(text->bytes);
  } else if (self.is_number()) {
    number = self.number();
  }
  return number ? truncated(*number).value_or(otherwise) : otherwise;
}

Result<Value> filter_round(Runtime&, const Value& self, const Bound& arguments) {
  if (!self.is_number()) return error("round needs a number, not a ", type_name(self));
  LAMINA_ASSIGN(const int64_t precision, integer_or(arguments, 0, 0));
  std::string_view method = "common";
  if (arguments.has(1)) {
    LAMINA_ASSIGN(const Text* given, text_of(arguments.value(1)));
    method = given->bytes;
  }
  if (method == "common") return self.is_integral() && precision >= 0 ? Value(self.integer()) : Value(rounded(self.number(), precision));
  if (method != "ceil" && method != "floor") return error("the method of round must be common, ceil or floor, not '", method, "'");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.number() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Result<Value> filter_sum(Runtime& runtime, const Value& self, const Bound& arguments) {
  AttributePath path;
  if (arguments.set(0)) {
    LAMINA_ASSIGN(path, AttributePath::parse(runtime, arguments.value(0)));
  }
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  Value sum = arguments.has(1) ? arguments.value(1) : Value(Integer{0});
  for (const Value& each : items) {
    LAMINA_ASSIGN(const Value value, path.from(runtime, each));
    LAMINA_ASSIGN(sum, arithmetic(runtime, Arithmetic::Operator::kAdd, sum, value));
    LAMINA_TRY(runtime.check());
  }
  return sum;
}

}  // namespace lamina::jinja
