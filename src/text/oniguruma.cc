#include "text/oniguruma.h"

#include <cctype>

#include "base/strings.h"

namespace lamina::text {
namespace {

// What Oniguruma takes as a word character: alphabetic ones, marks, decimal digits, connectors and, by its own table, seven Latin-1
// numbers.
constexpr std::string_view kWordItems =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
    "\\x{1f170}-\\x{1f189}";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (pos_ < in_.size()) LAMINA_TRY(item());
    return std::move(out_);
  }

 private:
  bool at(std::string_view text) const { return in_.substr(pos_).starts_with(text); }
  void copy(size_t n) {
    out_.append(in_.substr(pos_, n));
    pos_ += n;
  }
  Error refuse(std::string_view what) const { return error(what, " is not supported (offset ", pos_, ")"); }

  Status item() {
    switch (in_[pos_]) {
      case '\\':
        return escape(false);
      case '[':
        return bracket();
      case '(':
        return group();
      case '{':
        return braces();
      default:
        copy(1);
        return {};
    }
  }

  Status group() {
    if (!at("(?")) {
      copy(1);
      return {};
    }
    for (const std::string_view same : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (at(same)) {
        copy(same.size());
        return {};
      }
    }
    const size_t end = in_.find_first_of(":)", pos_);
    if (end == std::string_view::npos) return refuse("a group without end");
    const std::string_view flags = in_.substr(pos_ + 2, end - pos_ - 2);
    if (flags.find_first_not_of("imx-") != std::string_view::npos) return refuse(cat("the group (?", flags));
    out_ += "(?";
    for (const char flag : flags) out_ += flag == 'm' ? 's' : flag;  // Ruby's m: the dot matches newlines
    out_ += in_[end];
    pos_ = end + 1;
    return {};
  }

  Status braces() {
    size_t end = pos_ + 1;
    while (end < in_.size() && (std::isdigit(static_cast<unsigned char>(in_[end])) != 0 || in_[end] == ',')) ++end;
    const bool repeat = end > pos_ + 1 && end < in_.size() && in_[end] == '}' && in_.substr(pos_ + 1, end - pos_ - 1) != ",";
    if (!repeat) {
      out_ += "\\{";
      ++pos_;
      return {};
    }
    if (in_.substr(end + 1).starts_with('+')) return refuse("a + after {n,m}");
    if (at("{,")) {
      out_ += "{0";
      ++pos_;
    }
    copy(end + 1 - pos_);
    return {};
  }

  Status bracket() {
    copy(at("[^") ? 2 : 1);
    if (at("]")) return refuse("an empty or ]-first class");
    while (pos_ < in_.size() && in_[pos_] != ']') {
      if (in_[pos_] == '[') return refuse("a class inside a class");
      if (at("&&")) return refuse("&& in a class");
      if (in_[pos_] == '\\') {
        LAMINA_TRY(escape(true));
      } else {
        copy(1);
      }
    }
    if (pos_ == in_.size()) return refuse("a class without end");
    copy(1);
    return {};
  }

  Status escape(bool in_class) {
    if (pos_ + 1 == in_.size()) return refuse("a \\ at the end");
    const char c = in_[pos_ + 1];
    switch (c) {
      case 'w':
        return replace(in_class ? cat(kWordItems) : cat('[', kWordItems, ']'));
      case 'W':
        if (in_class) return refuse("\\W in a class");
        return replace(cat("[^", kWordItems, ']'));
      case 'h':
        return replace(in_class ? "0-9A-Fa-f" : "[0-9A-Fa-f]");
      case 'H':
        if (in_class) return refuse("\\H in a class");
        return replace("[^0-9A-Fa-f]");
      case 'v':
        return replace("\\x{b}");
      case 'u':
        return unicode_escape();
      case 'b':
        if (in_class) return replace("\\x{8}");
        return replace(cat("(?:(?<=[", kWordItems, "])(?![", kWordItems, "])|(?<![", kWordItems, "])(?=[", kWordItems, "]))"));
      case 'B':
        return replace(cat("(?:(?<=[", kWordItems, "])(?=[", kWordItems, "])|(?<![", kWordItems, "])(?![", kWordItems, "]))"));
      default:
        break;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 && c != '0') return refuse("a back reference");
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 && std::string_view("sSdDpPrntfaexAzZ").find(c) == std::string_view::npos)
      return refuse(cat("the escape \\", c));
    copy(2);
    if (std::string_view("pPx").find(c) != std::string_view::npos && at("{")) {  // the name or number, not a repeat count
      const size_t end = in_.find('}', pos_);
      if (end == std::string_view::npos) return refuse("a { without }");
      copy(end + 1 - pos_);
    }
    return {};
  }

  Status replace(std::string_view with) {
    out_ += with;
    pos_ += 2;
    return {};
  }

  Status unicode_escape() {
    const std::string_view digits = in_.substr(pos_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      return refuse("\\u without four hexadecimal digits");
    out_ += cat("\\x{", digits, '}');
    pos_ += 6;
    return {};
  }

  std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> oniguruma_to_pcre2(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace lamina::text
