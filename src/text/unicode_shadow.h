#pragma once
// Text as PCRE2 must see it to classify every code point as the tokenizer library does.
//
// The library's regular expressions use Unicode 16, PCRE2 an older edition. Writing the newer classes out as ranges makes patterns some
// 50 times slower, so text is matched through a shadow instead: the same bytes, except that each code point of a small table
// (tools/unicode/shadow_table.py) is replaced by one that has the right classes and the same length.

#include <string>
#include <string_view>

namespace lamina::text {

/// The code point that PCRE2 is to see for `c`: nearly always `c` itself.
char32_t stand_in(char32_t c);

/// True when some code point of `utf8` (valid UTF-8) has a stand-in.
bool needs_shadow(std::string_view utf8);

/// The shadow of `utf8` (valid UTF-8): `utf8` itself when no code point has a stand-in, else a copy kept in `buffer`. Same size.
std::string_view shadow_of(std::string_view utf8, std::string& buffer);

}  // namespace lamina::text
