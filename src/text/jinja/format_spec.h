#pragma once
// One field of a format: numbers and text brought to a width.

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

struct FormatSpec {
  std::string_view fill = " ";
  char align = '\0';  // < > ^ =; '\0': left for text, right for numbers
  char sign = '-';    // '-', '+' or ' '
  bool alternate = false;
  int width = 0;
  char grouping = '\0';  // ',' or '_' between thousands
  int precision = -1;    // -1: not given
  char type = '\0';
};

/// "[[fill]align][sign][#][0][width][grouping][.precision][type]". Errors name the spec.
Result<FormatSpec> parse_format_spec(std::string_view spec);
/// Reads a number at `at` of a width or precision; -1 when there is none. Fails above kMaxFormatWidth.
Result<int> format_number(std::string_view text, size_t& at);

/// Types: text s; integers d b o x X c n; numbers e E f F g G %.
Status add_formatted(Runtime& runtime, const FormatSpec& spec, const Value& value, TextBuilder& out);

}  // namespace lamina::jinja
