// PCRE2, looking at shadows, classifies every code point as the library does; normalization takes its short cut only where it may.
#include <gtest/gtest.h>

#include <set>

#include "base/utf8.h"
#include "tests/text/vectors.h"
#include "text/pattern.h"
#include "text/unicode_class.h"
#include "text/unicode_forms.h"
#include "text/unicode_shadow.h"

namespace lamina::text {
namespace {

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

std::string all_code_points() {
  std::string all;
  for (char32_t c = 0; c <= 0x10FFFF; ++c)
    if (c < 0xD800 || c > 0xDFFF) append_utf8(all, c);
  return all;
}

void add(Ranges& ranges, char32_t c) {
  if (!ranges.empty() && ranges.back().second + 1 == c) {
    ranges.back().second = c;
  } else {
    ranges.emplace_back(c, c);
  }
}

TEST(UnicodeShadow, GivesPcre2TheClassesOfTheLibrary) {
  const std::optional<Json> golden = text_test::read_json(text_test::kGoldenFolder + "/unicode_classes.json");
  if (!golden) GTEST_SKIP() << "no goldens at " << text_test::kGoldenFolder;
  const std::string all = all_code_points();
  std::string buffer;
  const Subject subject{all, shadow_of(all, buffer)};
  ASSERT_EQ(subject.shadow.size(), all.size());
  MatchScratch scratch;
  size_t classes = 0;
  for (const auto& [name, value] : golden->as_object()) {
    if (!value.is_array()) continue;
    ++classes;
    Ranges found, expected;
    const Pattern pattern = Pattern::regex("(?:" + name + ")+").value();
    const Status status = pattern.for_each_piece(subject, scratch, [&](size_t begin, size_t end, bool is_match) {
      for (size_t pos = begin; is_match && pos < end;) add(found, next_code_point(all, pos));
    });
    ASSERT_TRUE(status.ok());
    for (const Json& range : value.as_array())
      for (auto c = static_cast<char32_t>(range.as_array()[0].as_integer()); c <= range.as_array()[1].as_integer(); ++c)
        if (c < 0xD800 || c > 0xDFFF) add(expected, c);
    EXPECT_EQ(found, expected) << name;
  }
  EXPECT_GE(classes, 14u);
}

TEST(UnicodeShadow, CostsNoCopyWhereNothingDiffers) {
  std::string buffer;
  const std::string_view text = "plain, Zürich, 你好, 😀";
  EXPECT_FALSE(needs_shadow(text));
  EXPECT_EQ(shadow_of(text, buffer).data(), text.data());
  const std::string_view newer = "a\U00010D50b";  // a capital of Garay, Unicode 16
  EXPECT_TRUE(needs_shadow(newer));
  const std::string_view shadow = shadow_of(newer, buffer);
  EXPECT_EQ(shadow.size(), newer.size());
  EXPECT_EQ(shadow.front(), 'a');
  EXPECT_EQ(shadow.back(), 'b');
  EXPECT_NE(shadow, newer);
}

TEST(UnicodeForms, GiveTheSameWithAndWithoutTheShortCut) {
  std::string plain, forced;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text = "a";
    append_utf8(text, c);
    const std::string marked = text + "\n\u0340";  // U+0340 is never in NFC: the short cut is off
    const std::string expected = std::string(to_unicode_form(marked, UnicodeForm::kNfc, forced));
    ASSERT_EQ(std::string(to_unicode_form(text, UnicodeForm::kNfc, plain)) + "\n\u0300", expected) << std::hex << static_cast<uint32_t>(c);
  }
}

TEST(UnicodeForms, LeaveCompatibilityCharactersYoungerThanTheLibrary) {
  std::string buffer;
  EXPECT_EQ(to_unicode_form("\u32FE\u32FF", UnicodeForm::kNfkc, buffer), "ヲ\u32FF");
  EXPECT_EQ(to_unicode_form("ﬁ\U0001F16C①", UnicodeForm::kNfkd, buffer), "fi\U0001F16C1");
  EXPECT_EQ(to_unicode_form("\U00011938é", UnicodeForm::kNfd, buffer), "\U00011938e\u0301");
}

TEST(UnicodeForms, LowercaseEachCodePointAlone) {
  std::string out;
  append_lowercase(out, "ΣΑΣ İ Ǆ \U00010D50");
  EXPECT_EQ(out, "σασ i\u0307 ǆ \U00010D70");
}

}  // namespace
}  // namespace lamina::text
