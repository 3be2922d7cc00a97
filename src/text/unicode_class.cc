#include "text/unicode_class.h"

#include <unicode/uchar.h>

#include "text/unicode_shadow.h"

namespace lamina::text {

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }

bool is_word_character(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  const auto seen = static_cast<UChar32>(stand_in(c));
  return u_isUAlphabetic(seen) != 0 || (U_GET_GC_MASK(seen) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

}  // namespace lamina::text
