#include "base/utf8.h"

namespace lamina {
namespace {

struct Decoded {
  char32_t code_point;
  int length;  // bytes of the character, or of the maximal invalid part
  bool valid;
  bool truncated;  // invalid only because the text ends
};

// The well-formed sequences of Unicode's table 3-7: the first byte fixes the length and the range of the second.
struct Lead {
  int length;
  uint8_t second_low, second_high;
};
Lead classify(uint8_t byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

Decoded decode(std::string_view text, size_t pos) {
  const auto first = static_cast<uint8_t>(text[pos]);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = classify(first);
  if (lead.length == 0) return {kReplacement, 1, false, false};
  char32_t code_point = first & (0x7F >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    if (pos + i >= text.size()) return {kReplacement, i, false, true};
    const auto byte = static_cast<uint8_t>(text[pos + i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {kReplacement, i, false, false};
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return {code_point, lead.length, true, false};
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    if (static_cast<uint8_t>(text[pos]) < 0x80) {
      ++pos;
      continue;
    }
    const Decoded d = decode(text, pos);
    if (!d.valid) return pos;
    pos += d.length;
  }
  return pos;
}

char32_t next_code_point(std::string_view text, size_t& pos) {
  const Decoded d = decode(text, pos);
  pos += d.length;
  return d.code_point;
}

void append_utf8(std::string& out, char32_t code_point) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) code_point = kReplacement;
  const auto tail = [&](int shift) { out.push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3F))); };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code_point >> 12));
    tail(6), tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code_point >> 18));
    tail(12), tail(6), tail(0);
  }
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = valid_utf8_prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    append_utf8(out, kReplacement);
    bytes.remove_prefix(decode(bytes, 0).length);
  }
  return out;
}

size_t incomplete_utf8_tail(std::string_view bytes) {
  for (size_t tail = 1; tail <= 3 && tail <= bytes.size(); ++tail) {
    const size_t pos = bytes.size() - tail;
    if ((static_cast<uint8_t>(bytes[pos]) & 0xC0) == 0x80) continue;
    const Decoded d = decode(bytes, pos);
    return d.truncated ? tail : 0;
  }
  return 0;
}

}  // namespace lamina
