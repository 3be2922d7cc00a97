#include "base/utf8.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

std::u32string decode_all(std::string_view text) {
  std::u32string out;
  for (size_t pos = 0; pos < text.size();) out += next_code_point(text, pos);
  return out;
}

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    size_t pos = 0;
    ASSERT_EQ(next_code_point(text, pos), c);
    ASSERT_EQ(pos, text.size());
    ASSERT_TRUE(is_valid_utf8(text));
  }
}

TEST(Utf8, SurrogatesAndLargeValuesAreWrittenAsReplacement) {
  for (char32_t c : {0xD800, 0xDFFF, 0x110000}) {
    std::string text;
    append_utf8(text, c);
    EXPECT_EQ(text, "\uFFFD");
  }
}

TEST(Utf8, ValidPrefixEndsAtTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_prefix("aé\U0001F600"), 7U);
  EXPECT_EQ(valid_utf8_prefix("a\xff"), 1U);
  EXPECT_EQ(valid_utf8_prefix("é\xe2\x82"), 2U);
  EXPECT_EQ(valid_utf8_prefix(""), 0U);
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80"}) {
    EXPECT_EQ(valid_utf8_prefix(bad), 0U);
  }
}

// The expected counts are those of the Unicode standard, section 3.9, "substitution of maximal subparts" (tables 3-8 to 3-11).
TEST(Utf8, EachMaximalInvalidPartBecomesOneReplacement) {
  EXPECT_EQ(decode_all("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), U"\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(decode_all("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), U"\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(decode_all("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), U"\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\x41\uFFFD\uFFFD\x42");
  EXPECT_EQ(decode_all("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), U"\uFFFD\uFFFD\uFFFD\uFFFD\x41");
}

TEST(Utf8, LossyConversionKeepsValidText) {
  EXPECT_EQ(to_valid_utf8("Grüße \U0001F600"), "Grüße \U0001F600");
  EXPECT_EQ(to_valid_utf8("a\xE1\x80\xE2"
                          "b\xF0\x90"),
            "a\uFFFD\uFFFDb\uFFFD");
  EXPECT_EQ(to_valid_utf8(""), "");
}

TEST(Utf8, IncompleteTailIsWhatMoreBytesCouldComplete) {
  EXPECT_EQ(incomplete_utf8_tail(""), 0U);
  EXPECT_EQ(incomplete_utf8_tail("abc"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\xC3"), 1U);
  EXPECT_EQ(incomplete_utf8_tail("a\xE2\x82"), 2U);
  EXPECT_EQ(incomplete_utf8_tail("\xF0\x9F\x98"), 3U);
  EXPECT_EQ(incomplete_utf8_tail("\xF0\x9F\x98\x80"), 0U);
  EXPECT_EQ(incomplete_utf8_tail("\xF0\x80"), 0U);  // overlong: nothing can complete it
  EXPECT_EQ(incomplete_utf8_tail("\xED\xA0"), 0U);  // surrogate
  EXPECT_EQ(incomplete_utf8_tail("\x80\x80"), 0U);  // no lead byte
  EXPECT_EQ(incomplete_utf8_tail("\xE2\x82\x82\x82"), 0U);
}

}  // namespace
}  // namespace lamina
