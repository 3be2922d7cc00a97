#pragma once
// From source to tokens, white space around tags treated as trim_blocks and lstrip_blocks ask.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"

namespace lamina::jinja {

/// A source text and its name, to report places in it.
struct Source {
  std::string_view what;
  std::string_view text;

  struct Place {
    int line, column;  // from 1; columns count characters
  };
  Place place(size_t offset) const;
  template <class... Pieces>
  Error fail(size_t offset, const Pieces&... pieces) const {
    const Place at = place(offset);
    return error(what, ": line ", at.line, ", column ", at.column, ": ", pieces...);
  }
};

struct Token {
  enum class Type { kText, kTagBegin, kTagEnd, kPrintBegin, kPrintEnd, kName, kString, kInteger, kFloat, kOperator, kEnd };
  Type type;
  std::string_view text;  // views the source; of a string with its quotes
  size_t offset;
  int line;
};

/// Line ends become \n, and one at the end goes.
std::string normalized_source(std::string_view source);
/// The tokens of a normalized source, kEnd last.
Result<std::vector<Token>> tokenize(const Source& source);
/// For errors: "'endif'", "the end of the tag".
std::string describe(const Token& token);

}  // namespace lamina::jinja
