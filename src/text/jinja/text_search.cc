#include "text/jinja/text_search.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/utf8.h"

namespace lamina::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

char32_t character_at(std::string_view text, size_t at) { return next_code_point(text, at); }

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(character_at(text, at))) at = next_character(text, at);
  return at;
}

size_t skip_word(std::string_view text, size_t at) {
  while (at < text.size() && !is_space(character_at(text, at))) at = next_character(text, at);
  return at;
}

bool ends_line(char32_t c) { return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029; }

}  // namespace

size_t find_bytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size() || text.size() - from < needle.size()) return kNone;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? kNone : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_bytes(std::string_view text, std::string_view needle, size_t end) {
  text = text.substr(0, end);
  const std::string backwards(text.rbegin(), text.rend()), sought(needle.rbegin(), needle.rend());
  const size_t found = find_bytes(backwards, sought, 0);
  return found == kNone ? kNone : text.size() - found - needle.size();
}

size_t next_character(std::string_view text, size_t at) {
  ++at;
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

size_t previous_character(std::string_view text, size_t at) {
  --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

Piece stripped(std::string_view text, const std::string_view* characters, bool left, bool right) {
  const auto goes = [&](size_t begin, size_t end) {
    if (characters == nullptr) return is_space(character_at(text, begin));
    return find_bytes(*characters, text.substr(begin, end - begin), 0) != kNone;
  };
  Piece rest{0, text.size()};
  while (left && rest.begin < rest.end && goes(rest.begin, next_character(text, rest.begin))) rest.begin = next_character(text, rest.begin);
  while (right && rest.begin < rest.end && goes(previous_character(text, rest.end), rest.end))
    rest.end = previous_character(text, rest.end);
  return rest;
}

std::vector<Piece> split_space(std::string_view text, int64_t most) {
  std::vector<Piece> pieces;
  for (size_t begin = skip_space(text, 0); begin < text.size();) {
    if (most >= 0 && static_cast<int64_t>(pieces.size()) == most) {
      pieces.push_back({begin, stripped(text, nullptr, false, true).end});
      break;
    }
    const size_t end = skip_word(text, begin);
    pieces.push_back({begin, end});
    begin = skip_space(text, end);
  }
  return pieces;
}

std::vector<Piece> rsplit_space(std::string_view text, int64_t most) {
  std::vector<Piece> all = split_space(text, -1);
  const auto count = static_cast<int64_t>(all.size());
  if (most < 0 || count <= most + 1) return all;
  std::vector<Piece> pieces{{stripped(text, nullptr, true, false).begin, all[static_cast<size_t>(count - most - 1)].end}};
  pieces.insert(pieces.end(), all.end() - most, all.end());
  return pieces;
}

std::vector<Piece> split_at(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(pieces.size()) < most) {
    const size_t end = find_bytes(text, separator, begin);
    if (end == kNone) break;
    pieces.push_back({begin, end});
    begin = end + separator.size();
  }
  pieces.push_back({begin, text.size()});
  return pieces;
}

std::vector<Piece> rsplit_at(std::string_view text, std::string_view separator, int64_t most) {
  const std::string backwards(text.rbegin(), text.rend()), sought(separator.rbegin(), separator.rend());
  std::vector<Piece> pieces = split_at(backwards, sought, most);
  for (Piece& piece : pieces) piece = {text.size() - piece.end, text.size() - piece.begin};
  std::ranges::reverse(pieces);
  return pieces;
}

std::vector<Piece> lines(std::string_view text, bool keep_ends) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = next_code_point(text, at);
    if (!ends_line(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    pieces.push_back({begin, keep_ends ? at : end});
    begin = at;
  }
  if (begin < text.size()) pieces.push_back({begin, text.size()});
  return pieces;
}

}  // namespace lamina::jinja
