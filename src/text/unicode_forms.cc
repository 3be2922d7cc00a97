#include "text/unicode_forms.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"

namespace lamina::text {
namespace {

// The library's tables are those of Unicode 9: to it, younger code points neither decompose, compose nor change places.
bool is_unknown_to_library(char32_t c) {
  if (c < 0x7FD) return false;
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 9;
}

const icu::Normalizer2& normalizer(UnicodeForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case UnicodeForm::kNfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case UnicodeForm::kNfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case UnicodeForm::kNfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case UnicodeForm::kNfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  LAMINA_CHECK(U_SUCCESS(status) && found != nullptr, "ICU's normalization data cannot be loaded");
  return *found;
}

// Upper case letters younger than ICU 72.
char32_t lower_of(char32_t c) {
  struct Row {
    char32_t first, last, lower;
  };
  constexpr Row kRows[] = {{0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},    {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
                           {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},   {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
                           {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};
  for (const Row& row : kRows)
    if (row.first <= c && c <= row.last) return row.lower + (c - row.first);
  return static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// True only for text in NFC made of: anything below U+0300, U+2002 to U+203F, U+3000 to U+3028, U+4000 to U+9FFF, U+FF00 to U+FFFD.
bool is_plainly_nfc(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0xCC || (byte >= 0xE4 && byte <= 0xE9)) continue;  // continuation bytes pass with their lead
    const auto second = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const auto third = i + 2 < text.size() ? static_cast<unsigned char>(text[i + 2]) : 0;
    const bool plain = (byte == 0xE2 && second == 0x80 && third >= 0x82) || (byte == 0xE3 && second == 0x80 && third <= 0xA8) ||
                       (byte == 0xEF && second >= 0xBC);
    if (!plain) return false;
    i += 2;
  }
  return true;
}

void append_form(std::string& out, std::string_view text, const icu::Normalizer2& by) {
  UErrorCode status = U_ZERO_ERROR;
  icu::StringByteSink<std::string> sink(&out);
  by.normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, nullptr, status);
  LAMINA_CHECK(U_SUCCESS(status), "ICU cannot normalize");
}

// ICU counts in int32: long text goes through in parts that end before a character no normalization form can change the left side of.
constexpr size_t kPart = size_t{1} << 28;

}  // namespace

std::string_view to_unicode_form(std::string_view text, UnicodeForm form, std::string& buffer) {
  if (form == UnicodeForm::kNfc ? is_plainly_nfc(text) : is_ascii(text)) return text;
  const icu::Normalizer2& by = normalizer(form);
  buffer.clear();
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_code_point(text, pos);
    const bool kept = is_unknown_to_library(c);
    const bool full = begin - done >= kPart && by.hasBoundaryBefore(static_cast<UChar32>(c)) != 0;
    if (!kept && !full) continue;
    append_form(buffer, text.substr(done, begin - done), by);
    if (kept) buffer.append(text.substr(begin, pos - begin));
    done = kept ? pos : begin;
  }
  append_form(buffer, text.substr(done), by);
  return buffer;
}

void append_lowercase(std::string& out, std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (c < 0x80) {
      out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    } else if (c == 0x130) {
      out += "i\xCC\x87";  // i and a dot above: the one lower case of two code points
    } else {
      append_utf8(out, lower_of(c));
    }
  }
}

}  // namespace lamina::text
