#include "text/jinja/unicode_text.h"

#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/text_search.h"

namespace lamina::jinja {
namespace {

UChar32 point(char32_t c) { return static_cast<UChar32>(c); }

/// "" or what `map` (one of ICU's u_strTo functions) makes of one character.
template <class Map>
void append_mapped(std::string& out, char32_t c, Map map) {
  UChar source[2], target[8];
  int32_t length = 0;
  UErrorCode status = U_ZERO_ERROR;
  u_strFromUTF32(source, 2, &length, reinterpret_cast<const UChar32*>(&c), 1, &status);
  const int32_t mapped = map(target, 8, source, length, &status);
  if (U_FAILURE(status)) return append_utf8(out, c);
  for (int32_t i = 0; i < mapped;) {
    UChar32 next = 0;
    U16_NEXT(target, i, mapped, next);
    append_utf8(out, static_cast<char32_t>(next));
  }
}

void append_upper(std::string& out, char32_t c) {
  append_mapped(out, c, [](UChar* to, int32_t room, const UChar* from, int32_t length, UErrorCode* status) {
    return u_strToUpper(to, room, from, length, "", status);
  });
}

void append_lower(std::string& out, char32_t c) {
  append_mapped(out, c, [](UChar* to, int32_t room, const UChar* from, int32_t length, UErrorCode* status) {
    return u_strToLower(to, room, from, length, "", status);
  });
}

void append_title(std::string& out, char32_t c) {
  append_mapped(out, c, [](UChar* to, int32_t room, const UChar* from, int32_t length, UErrorCode* status) {
    return u_strToTitle(to, room, from, length, nullptr, "", status);
  });
}

void append_folded(std::string& out, char32_t c) {
  append_mapped(out, c, [](UChar* to, int32_t room, const UChar* from, int32_t length, UErrorCode* status) {
    return u_strFoldCase(to, room, from, length, U_FOLD_CASE_DEFAULT, status);
  });
}

bool is_case_ignorable(char32_t c) { return u_hasBinaryProperty(point(c), UCHAR_CASE_IGNORABLE) != 0; }

/// A capital sigma at `at` ends its word: a cased character before it, none behind.
bool is_final_sigma(std::string_view text, size_t at) {
  bool cased_before = false;
  for (size_t before = at; before > 0;) {
    before = previous_character(text, before);
    size_t pos = before;
    const char32_t c = next_code_point(text, pos);
    if (is_case_ignorable(c)) continue;
    cased_before = is_cased(c);
    break;
  }
  if (!cased_before) return false;
  for (size_t after = next_character(text, at); after < text.size();) {
    const char32_t c = next_code_point(text, after);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

void append_lower_in(std::string& out, std::string_view text, size_t at, char32_t c) {
  constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;
  if (c == kCapitalSigma && is_final_sigma(text, at)) return append_utf8(out, kFinalSigma);
  append_lower(out, c);
}

void append_case(std::string& out, std::string_view text, size_t at, char32_t c, Case wanted, bool word_start) {
  switch (wanted) {
    case Case::kUpper:
      return append_upper(out, c);
    case Case::kLower:
      return append_lower_in(out, text, at, c);
    case Case::kTitle:
    case Case::kCapitalized:
      return word_start ? append_title(out, c) : append_lower_in(out, text, at, c);
    case Case::kSwapped:
      if (is_upper(c)) return append_lower_in(out, text, at, c);
      return is_lower(c) ? append_upper(out, c) : append_utf8(out, c);
    case Case::kFolded:
      return append_folded(out, c);
  }
}

/// The bytes of ASCII text in the wanted case, where that is a matter of each byte alone.
bool ascii_case(std::string& bytes, Case wanted) {
  if (wanted != Case::kUpper && wanted != Case::kLower && wanted != Case::kFolded) return false;
  for (char& c : bytes) {
    if (wanted == Case::kUpper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
    if (wanted != Case::kUpper && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return true;
}

}  // namespace

bool is_printable(char32_t c) {
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return c == ' ' || (U_GET_GC_MASK(point(c)) & kHidden) == 0;
}
bool is_alpha(char32_t c) { return (U_GET_GC_MASK(point(c)) & U_GC_L_MASK) != 0; }
bool is_decimal(char32_t c) { return u_getIntPropertyValue(point(c), UCHAR_NUMERIC_TYPE) == U_NT_DECIMAL; }
bool is_digit(char32_t c) {
  const int32_t type = u_getIntPropertyValue(point(c), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool is_numeric(char32_t c) { return u_getIntPropertyValue(point(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE; }
bool is_upper(char32_t c) { return u_isUUppercase(point(c)) != 0; }
bool is_lower(char32_t c) { return u_isULowercase(point(c)) != 0; }
bool is_title(char32_t c) { return u_charType(point(c)) == U_TITLECASE_LETTER; }
bool is_cased(char32_t c) { return u_hasBinaryProperty(point(c), UCHAR_CASED) != 0; }

Text with_case(Heap& heap, const Text& text, Case wanted) {
  if (text.ascii()) {
    std::string bytes(text.bytes);
    if (ascii_case(bytes, wanted)) return {.bytes = heap.copy(bytes), .flips = text.flips, .user = text.user, .markup = text.markup};
  }
  TextBuilder out;
  std::string mapped;
  bool after_cased = false;
  for (size_t next = 0; next < text.bytes.size();) {
    const size_t at = next;
    const char32_t c = next_code_point(text.bytes, next);
    mapped.clear();
    append_case(mapped, text.bytes, at, c, wanted, wanted == Case::kTitle ? !after_cased : at == 0);
    out.add_instead(text, at, mapped);
    after_cased = is_cased(c);
  }
  return out.finish(heap, text.markup);
}

}  // namespace lamina::jinja
