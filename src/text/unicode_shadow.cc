#include "text/unicode_shadow.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/utf8.h"

namespace lamina::text {
namespace {

struct Row {
  char32_t first, last, stand_in;
};
constexpr Row kRows[] = {
#include "text/unicode_shadow.inc"
};

// One flag for each 64 code points, so that text without stand-ins costs a bit test a character.
constexpr int kBlockBits = 6;
constexpr size_t kBlocks = 0x110000 >> kBlockBits;
constexpr std::array<bool, kBlocks> make_blocks() {
  std::array<bool, kBlocks> blocks{};
  for (const Row& row : kRows)
    for (char32_t c = row.first; c <= row.last; ++c) blocks[c >> kBlockBits] = true;
  return blocks;
}
constexpr std::array<bool, kBlocks> kHasRow = make_blocks();
static_assert(!kHasRow[0], "ASCII needs no stand-in");

/// Offset of the first code point with a stand-in at or after `pos`, or the size.
size_t find_stand_in(std::string_view utf8, size_t pos) {
  while (pos < utf8.size()) {
    if (static_cast<unsigned char>(utf8[pos]) < 0x80) {
      ++pos;
      continue;
    }
    size_t next = pos;
    const char32_t c = next_code_point(utf8, next);
    if (stand_in(c) != c) return pos;
    pos = next;
  }
  return pos;
}

}  // namespace

char32_t stand_in(char32_t c) {
  if (!kHasRow[c >> kBlockBits]) return c;
  const Row* row = std::ranges::lower_bound(kRows, c, {}, &Row::last);
  return row != std::end(kRows) && row->first <= c ? row->stand_in : c;
}

bool needs_shadow(std::string_view utf8) { return find_stand_in(utf8, 0) < utf8.size(); }

std::string_view shadow_of(std::string_view utf8, std::string& buffer) {
  size_t pos = find_stand_in(utf8, 0);
  if (pos == utf8.size()) return utf8;
  buffer.assign(utf8.substr(0, pos));
  while (pos < utf8.size()) {
    append_utf8(buffer, stand_in(next_code_point(utf8, pos)));
    const size_t next = find_stand_in(utf8, pos);
    buffer.append(utf8.substr(pos, next - pos));
    pos = next;
  }
  return buffer;
}

}  // namespace lamina::text
