// The rules of Parser for names, constants and displays.
#include <charconv>

#include "base/utf8.h"
#include "text/jinja/parser.h"

namespace lamina::jinja {

Result<ExpressionPtr> Parser::primary() {
  switch (current().type) {
    case Token::Type::kName:
      return name_expression();
    case Token::Type::kString:
      return string_expression();
    case Token::Type::kInteger:
    case Token::Type::kFloat:
      return number_expression();
    default:
      break;
  }
  if (is_op("[")) return list_display();
  if (is_op("{")) return dict_display();
  if (!skip_op("(")) return fail("expected an expression, found ", describe(current()));
  LAMINA_ASSIGN(ExpressionPtr inner, tuple(true, true));
  LAMINA_TRY(expect_op(")"));
  return inner;
}

Result<ExpressionPtr> Parser::name_expression() {
  const int at_line = line();
  const std::string_view name = current().text;
  advance();
  if (name == "true" || name == "True") return make(at_line, Constant{true});
  if (name == "false" || name == "False") return make(at_line, Constant{false});
  if (name == "none" || name == "None") return make(at_line, Constant{});
  const NameId id = name_id(name);
  for (Macro* macro : macros_) {
    macro->uses_varargs |= id == kVarargsName;
    macro->uses_kwargs |= id == kKwargsName;
    macro->uses_caller |= id == kCallerName;
  }
  return make(at_line, Variable{id, *out_.names[static_cast<size_t>(id)]});
}

Result<ExpressionPtr> Parser::string_expression() {
  const int at_line = line();
  std::string text;
  while (is(Token::Type::kString)) {
    LAMINA_ASSIGN(const std::string part, unescaped(current()));
    text += part;
    advance();
  }
  return make(at_line, Constant{std::move(text)});
}

Result<std::string> Parser::unescaped(const Token& token) const {
  const std::string_view text = token.text.substr(1, token.text.size() - 2);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out += text[at++];
    } else {
      ++at;
      LAMINA_TRY(escape(token, at, out));
    }
  }
  return out;
}

/// The escape whose letter is character `at` of the string's inside.
Status Parser::escape(const Token& token, size_t& at, std::string& out) const {
  const std::string_view text = token.text.substr(1, token.text.size() - 2);
  constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
  const char letter = text[at++];
  if (letter == '\n') return {};  // the line goes on
  if (const size_t found = kLetters.find(letter); found != kLetters.npos) {
    out += kMeanings[found];
    return {};
  }
  const size_t hex_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  const bool octal = letter >= '0' && letter <= '7';
  if (!octal && hex_digits == 0) {
    out += '\\', out += letter;
    return {};
  }
  const std::string_view digits = octal ? text.substr(at - 1, 3) : text.substr(at, hex_digits);
  uint32_t code_point = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), code_point, octal ? 8 : 16);
  const auto read = static_cast<size_t>(end - digits.data());
  if (problem != std::errc() || (!octal && read != hex_digits))
    return source_.fail(token.offset + at - 1, "the escape \\", letter, " needs ", hex_digits, " hexadecimal digits");
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000))
    return source_.fail(token.offset + at - 1, "the escape \\", letter, digits, " is no character");
  append_utf8(out, code_point);
  at += octal ? read - 1 : read;
  return {};
}

Result<ExpressionPtr> Parser::number_expression() {
  const int at_line = line();
  std::string digits;
  for (const char c : current().text)
    if (c != '_') digits += c;
  const char* begin = digits.data();
  const char* end = begin + digits.size();
  if (is(Token::Type::kFloat)) {
    double value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) return fail("the number ", digits, " is out of range");
    advance();
    return make(at_line, Constant{value});
  }
  const char letter = digits.size() > 2 ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  if (base == 10 && digits.size() > 1 && digits.find_first_not_of('0') != digits.npos && digits[0] == '0')
    return fail("the number ", digits, " begins with 0");
  Integer value = 0;
  for (const char* c = base == 10 ? begin : begin + 2; c < end; ++c) {
    const int digit = *c <= '9' ? *c - '0' : (*c | 0x20) - 'a' + 10;
    if (__builtin_mul_overflow(value, Integer{base}, &value) || __builtin_add_overflow(value, Integer{digit}, &value))
      return fail("the number ", digits, " is out of range");
  }
  advance();
  return make(at_line, Constant{value});
}

Result<ExpressionPtr> Parser::list_display() {
  const int at_line = line();
  advance();
  Sequence out{.tuple = false};
  while (!is_op("]")) {
    if (!out.items.empty()) LAMINA_TRY(expect_op(","));
    if (is_op("]")) break;
    LAMINA_ASSIGN(out.items.emplace_back(), expression());
  }
  advance();
  return make(at_line, std::move(out));
}

Result<ExpressionPtr> Parser::dict_display() {
  const int at_line = line();
  advance();
  Mapping out;
  while (!is_op("}")) {
    if (!out.entries.empty()) LAMINA_TRY(expect_op(","));
    if (is_op("}")) break;
    LAMINA_ASSIGN(ExpressionPtr key, expression());
    LAMINA_TRY(expect_op(":"));
    LAMINA_ASSIGN(ExpressionPtr value, expression());
    out.entries.emplace_back(std::move(key), std::move(value));
  }
  advance();
  return make(at_line, std::move(out));
}

}  // namespace lamina::jinja
