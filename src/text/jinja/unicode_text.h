#pragma once
// What Python's str knows of characters: classes and case, by ICU.

#include "text/jinja/marked_text.h"

namespace lamina::jinja {

/// Not a control, format, unassigned or separator character; the space is printable.
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);    // decimals, superscripts and their kin
bool is_numeric(char32_t c);  // and fractions, numerals
bool is_upper(char32_t c);    // Uppercase
bool is_lower(char32_t c);    // Lowercase
bool is_title(char32_t c);
bool is_cased(char32_t c);

enum class Case { kUpper, kLower, kTitle, kCapitalized, kSwapped, kFolded };
/// str.upper(), lower(), title(), capitalize(), swapcase(), casefold(): full mappings, origins kept; markup stays.
Text with_case(Heap& heap, const Text& text, Case wanted);

}  // namespace lamina::jinja
