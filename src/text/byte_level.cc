#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace lamina::text {
namespace {

constexpr char32_t kEnd = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kEnd> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool visible = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const char32_t c = visible ? static_cast<char32_t>(b) : next++;
    alphabet.character[b] = c;
    alphabet.byte[c] = static_cast<int16_t>(b);
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

void append_spelled_bytes(std::string& out, std::string_view bytes) {
  for (const char b : bytes) {
    const char32_t c = kAlphabet.character[static_cast<uint8_t>(b)];
    if (c < 0x80) {
      out.push_back(static_cast<char>(c));
    } else {
      append_utf8(out, c);
    }
  }
}

void append_unspelled_bytes(std::string& out, std::string_view spelled) {
  const size_t start = out.size();
  for (size_t pos = 0; pos < spelled.size();) {
    const char32_t c = next_code_point(spelled, pos);
    if (c >= kEnd || kAlphabet.byte[c] < 0) {
      out.resize(start);
      out += spelled;
      return;
    }
    out.push_back(static_cast<char>(kAlphabet.byte[c]));
  }
}

}  // namespace lamina::text
