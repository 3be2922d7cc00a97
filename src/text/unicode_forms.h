#pragma once
// Normalization forms and case, as the tokenizer library computes them.

#include <string>
#include <string_view>

namespace lamina::text {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// `text` (valid UTF-8) in `form`: `text` itself where it already is, else kept in `buffer`. By ICU, except that code points
/// younger than the library's tables stay where and as they are.
std::string_view to_unicode_form(std::string_view text, UnicodeForm form, std::string& buffer);

/// Appends each code point's own lower case: no context (final sigma), no language.
void append_lowercase(std::string& out, std::string_view text);

}  // namespace lamina::text
