#include "text/jinja/lexer.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/text_search.h"
#include "text/unicode_class.h"

namespace lamina::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool all_space(std::string_view text) { return stripped(text, nullptr, true, false).begin == text.size(); }

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {}

  Result<std::vector<Token>> run() {
    while (at_ < text_.size()) LAMINA_TRY(text_and_tag());
    add(Token::Type::kEnd, text_.size(), text_.size());
    return std::move(tokens_);
  }

 private:
  Status text_and_tag();
  Status comment();
  Status tag(char kind);
  Status token_in_tag();
  Status string();
  Status operation();
  size_t number_end(Token::Type& type) const;
  size_t digits_end(size_t at) const;
  bool raw_begin(size_t begin, size_t& end) const;
  Status raw(size_t begin);
  size_t tag_end(char kind) const;
  void add_text(size_t begin, size_t end, char sign, bool strip_line);
  void add(Token::Type type, size_t begin, size_t end);
  bool stands(std::string_view what, size_t at) const { return text_.substr(at).starts_with(what); }
  size_t skip_space(size_t at) const { return at + stripped(text_.substr(at), nullptr, true, false).begin; }
  char sign_at(size_t at) const { return at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0'; }

  const Source& source_;
  const std::string_view text_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
  size_t counted_ = 0;  // up to where line_ has counted
  int line_ = 1;
  std::string open_;        // closing brackets that are due
  size_t open_offset_ = 0;  // of the innermost one's opening
};

void Lexer::add(Token::Type type, size_t begin, size_t end) {
  line_ += static_cast<int>(
      std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_), text_.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
  counted_ = begin;
  tokens_.push_back({type, text_.substr(begin, end - begin), begin, line_});
}

/// The text before a tag that begins at `end`, with the tag's sign; `strip_line`: lstrip_blocks applies to it.
void Lexer::add_text(size_t begin, size_t end, char sign, bool strip_line) {
  std::string_view text = text_.substr(begin, end - begin);
  if (sign == '-') {
    text = text.substr(0, stripped(text, nullptr, false, true).end);
  } else if (sign == '\0' && strip_line) {
    const size_t newline = text.rfind('\n');
    const bool whole_line = newline != kNone || begin == 0 || text_[begin - 1] == '\n';
    const size_t line = newline == kNone ? 0 : newline + 1;
    if (whole_line && all_space(text.substr(line))) text = text.substr(0, line);
  }
  if (!text.empty()) add(Token::Type::kText, begin, begin + text.size());
}

Status Lexer::text_and_tag() {
  size_t begin = at_;
  while ((begin = text_.find('{', begin)) != kNone) {
    if (begin + 1 < text_.size() && std::string_view("{%#").find(text_[begin + 1]) != kNone) break;
    ++begin;
  }
  if (begin == kNone) {
    add_text(at_, text_.size(), '+', false);
    at_ = text_.size();
    return {};
  }
  const char kind = text_[begin + 1], sign = sign_at(begin + 2);
  add_text(at_, begin, sign, kind != '{');
  at_ = begin + 2 + (sign != '\0');
  if (kind == '#') return comment();
  if (size_t end = 0; kind == '%' && raw_begin(begin, end)) {
    at_ = end;
    return raw(begin);
  }
  add(kind == '%' ? Token::Type::kTagBegin : Token::Type::kPrintBegin, begin, at_);
  return tag(kind);
}

Status Lexer::comment() {
  const size_t end = text_.find("#}", at_);
  if (end == kNone) return source_.fail(at_, "the comment does not end: '#}' is missing");
  const char sign = end > at_ ? sign_at(end - 1) : '\0';
  at_ = end + 2;
  if (sign == '-') at_ = skip_space(at_);
  if (sign == '\0' && stands("\n", at_)) ++at_;
  return {};
}

bool Lexer::raw_begin(size_t begin, size_t& end) const {
  end = skip_space(begin + 2 + (sign_at(begin + 2) != '\0'));
  if (!stands("raw", end)) return false;
  end = skip_space(end + 3);
  const bool strips = stands("-%}", end);
  if (!strips && !stands("%}", end)) return false;
  end = strips ? skip_space(end + 3) : end + 2;
  return true;
}

/// Up to {% endraw %}; at_ stands behind {% raw %}, which begins at `begin`.
Status Lexer::raw(size_t begin) {
  for (size_t tag = at_; (tag = text_.find("{%", tag)) != kNone; tag += 2) {
    const char sign = sign_at(tag + 2);
    size_t end = skip_space(tag + 2 + (sign != '\0'));
    if (!stands("endraw", end)) continue;
    end = skip_space(end + 6);
    const char end_sign = sign_at(end);
    if (!stands("%}", end + (end_sign != '\0'))) continue;
    add_text(at_, tag, sign, true);
    at_ = end + 2 + (end_sign != '\0');
    if (end_sign == '-') at_ = skip_space(at_);
    if (end_sign == '\0' && stands("\n", at_)) ++at_;
    return {};
  }
  return source_.fail(begin, "the raw block does not end: 'endraw' is missing");
}

/// Where the tag ends (with the white space that its sign takes) when its end stands at at_, else 0.
size_t Lexer::tag_end(char kind) const {
  const std::string_view mark = kind == '%' ? "%}" : "}}";
  const char sign = sign_at(at_);
  if (!stands(mark, at_ + (sign != '\0')) || (sign == '+' && kind != '%')) return 0;
  const size_t end = at_ + 2 + (sign != '\0');
  if (sign == '-') return skip_space(end);
  return sign == '\0' && kind == '%' && stands("\n", end) ? end + 1 : end;
}

Status Lexer::tag(char kind) {
  const size_t begin = at_;
  at_ = skip_space(at_);
  while (at_ < text_.size()) {
    if (const size_t end = open_.empty() ? tag_end(kind) : 0; end != 0) {
      add(kind == '%' ? Token::Type::kTagEnd : Token::Type::kPrintEnd, at_, end);
      at_ = end;
      return {};
    }
    LAMINA_TRY(token_in_tag());
    at_ = skip_space(at_);
  }
  if (!open_.empty()) return source_.fail(open_offset_, "'", open_.back(), "' is missing");
  return source_.fail(begin, "the tag does not end: '", kind == '%' ? "%}" : "}}", "' is missing");
}

Status Lexer::token_in_tag() {
  const char c = text_[at_];
  if (c == '\'' || c == '"') return string();
  if (is_digit(c)) {
    Token::Type type = Token::Type::kInteger;
    const size_t end = number_end(type);
    add(type, at_, end);
    at_ = end;
    return {};
  }
  size_t end = at_;
  while (end < text_.size()) {
    size_t next = end;
    const char32_t character = next_code_point(text_, next);
    if (character != '_' && !text::is_word_character(character)) break;
    end = next;
  }
  if (end == at_) return operation();
  add(Token::Type::kName, at_, end);
  at_ = end;
  return {};
}

size_t Lexer::digits_end(size_t at) const {
  if (at >= text_.size() || !is_digit(text_[at])) return at;
  for (++at; at < text_.size(); ++at) {
    if (text_[at] == '_' && at + 1 < text_.size() && is_digit(text_[at + 1])) continue;
    if (!is_digit(text_[at])) break;
  }
  return at;
}

size_t Lexer::number_end(Token::Type& type) const {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF_";
  if (text_[at_] == '0' && at_ + 1 < text_.size()) {
    const char base = static_cast<char>(text_[at_ + 1] | 0x20);
    const size_t digits = base == 'b' ? 2 : base == 'o' ? 8 : base == 'x' ? 22 : 0;
    size_t end = at_ + 2;
    while (digits != 0 && end < text_.size() && (text_[end] == '_' || kDigits.substr(0, digits).find(text_[end]) != kNone)) ++end;
    if (digits != 0 && end > at_ + 2) return end;
  }
  const size_t whole = digits_end(at_);
  size_t end = whole;
  const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';  // rows.0.1 has two integers
  if (!after_dot && stands(".", whole) && digits_end(whole + 1) > whole + 1) end = digits_end(whole + 1);
  if (!after_dot && end < text_.size() && (text_[end] | 0x20) == 'e') {
    const size_t digits = end + 1 + (sign_at(end + 1) != '\0');
    if (digits_end(digits) > digits) end = digits_end(digits);
  }
  if (end > whole) type = Token::Type::kFloat;
  return end;
}

Status Lexer::string() {
  const size_t begin = at_;
  const char quote = text_[begin];
  for (size_t at = begin + 1; at < text_.size(); ++at) {
    if (text_[at] == '\\') {
      ++at;
    } else if (text_[at] == quote) {
      add(Token::Type::kString, begin, at + 1);
      at_ = at + 1;
      return {};
    }
  }
  return source_.fail(begin, "the string does not end");
}

Status Lexer::operation() {
  constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
  const auto* two = std::ranges::find_if(kTwo, [&](std::string_view op) { return stands(op, at_); });
  const size_t size = two == std::end(kTwo) ? 1 : 2;
  const char c = text_[at_];
  if (size == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == kNone) {
    const size_t end = next_character(text_, at_);
    return source_.fail(at_, "unexpected character '", text_.substr(at_, end - at_), "'");
  }
  if (c == '(' || c == '[' || c == '{') {
    open_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    open_offset_ = at_;
  } else if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) return source_.fail(at_, "unexpected '", c, "'");
    if (open_.back() != c) return source_.fail(at_, "unexpected '", c, "', expected '", open_.back(), "'");
    open_.pop_back();
  }
  add(Token::Type::kOperator, at_, at_ + size);
  at_ += size;
  return {};
}

}  // namespace

Source::Place Source::place(size_t offset) const {
  const std::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  const std::string_view line = newline == kNone ? before : before.substr(newline + 1);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto columns = std::ranges::count_if(line, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
  return {static_cast<int>(lines) + 1, static_cast<int>(columns) + 1};
}

std::string normalized_source(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

Result<std::vector<Token>> tokenize(const Source& source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  if (token.type == Token::Type::kEnd) return "the end of the template";
  if (token.type == Token::Type::kTagEnd || token.type == Token::Type::kPrintEnd) return "the end of the tag";
  return cat("'", token.text, "'");
}

}  // namespace lamina::jinja
