#pragma once
// Questions about single code points, answered as the tokenizer library does (Unicode 16).

namespace lamina::text {

/// White_Space.
bool is_white_space(char32_t c);
/// A word character of UTS #18, Annex C: alphabetic, a mark, a decimal digit, a connector or a joiner.
bool is_word_character(char32_t c);

}  // namespace lamina::text
