#pragma once
// UTF-8 as the tokenizers need it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lamina {

inline constexpr char32_t kReplacement = 0xFFFD;

/// Length in bytes of the longest prefix that is whole, valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

/// Decodes the code point at `pos` (< text.size()) and advances it; an invalid byte gives U+FFFD and advances over the maximal invalid
/// part.
char32_t next_code_point(std::string_view text, size_t& pos);
/// Appends the character; a surrogate or a value above U+10FFFF as U+FFFD.
void append_utf8(std::string& out, char32_t code_point);

/// Replaces each maximal invalid part by one U+FFFD (as Rust's from_utf8_lossy).
std::string to_valid_utf8(std::string_view bytes);

/// Number of bytes at the end of `bytes` that begin a character which more bytes could complete (0 to 3).
size_t incomplete_utf8_tail(std::string_view bytes);

}  // namespace lamina
