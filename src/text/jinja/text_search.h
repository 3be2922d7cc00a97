#pragma once
// Searching and cutting text; in linear time whatever the texts are.

#include <string_view>
#include <vector>

namespace lamina::jinja {

/// Offset of the first `needle` at or after `from`, or npos.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from);
/// Offset of the last one that ends at or before `end`, or npos.
size_t rfind_bytes(std::string_view text, std::string_view needle, size_t end);
/// Offset behind the character at `at` < text.size().
size_t next_character(std::string_view text, size_t at);
/// Offset of the character before `at` > 0.
size_t previous_character(std::string_view text, size_t at);

/// str.isspace() of one character.
bool is_space(char32_t c);

struct Piece {
  size_t begin = 0, end = 0;
};
/// What strip() leaves. `characters` to take away, white space when null.
Piece stripped(std::string_view text, const std::string_view* characters, bool left, bool right);
/// Pieces between white space, at most `most` cuts (negative: any number), from the left.
std::vector<Piece> split_space(std::string_view text, int64_t most);
std::vector<Piece> rsplit_space(std::string_view text, int64_t most);
/// Pieces between separators, which are not empty.
std::vector<Piece> split_at(std::string_view text, std::string_view separator, int64_t most);
std::vector<Piece> rsplit_at(std::string_view text, std::string_view separator, int64_t most);
/// The lines without (or with) their ends, as str.splitlines().
std::vector<Piece> lines(std::string_view text, bool keep_ends = false);

}  // namespace lamina::jinja
