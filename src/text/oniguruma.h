#pragma once
// The regular expressions of tokenizer.json are written for Oniguruma with Ruby's syntax; ours run on PCRE2.

#include <string>
#include <string_view>

#include "base/result.h"

namespace lamina::text {

/// A PCRE2 pattern (for UTF, UCP and MULTILINE) that matches what Oniguruma makes of `pattern`. Constructs that the two read differently
/// are rewritten (\w, \h, \v, \uHHHH, {,n}, (?m:, \b) or, where no tokenizer uses them, refused: nested classes and &&, POSIX brackets,
/// named groups, back references, a possessive {n,m}+. The error tells the byte offset. Grammar errors are left to PCRE2.
Result<std::string> oniguruma_to_pcre2(std::string_view pattern);

}  // namespace lamina::text
