// Oniguruma's patterns on PCRE2: what is rewritten, what is refused, and how matches follow each other.
#include "text/pattern.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "text/oniguruma.h"

namespace lamina::text {
namespace {

std::vector<std::string> pieces(const Pattern& pattern, std::string_view text) {
  std::vector<std::string> out;
  MatchScratch scratch;
  const Status status = pattern.for_each_piece({text, text}, scratch, [&](size_t begin, size_t end, bool is_match) {
    out.push_back(cat(is_match ? '+' : '-', text.substr(begin, end - begin)));
  });
  if (!status.ok()) out.push_back(status.error().message);
  return out;
}
std::vector<std::string> pieces(std::string_view regex, std::string_view text) { return pieces(Pattern::regex(regex).value(), text); }

using Pieces = std::vector<std::string>;

TEST(Pattern, CoversTheTextWithMatchesAndGaps) {
  EXPECT_EQ(pieces("[0-9]+", "a12b3"), (Pieces{"-a", "+12", "-b", "+3"}));
  EXPECT_EQ(pieces(Pattern::literal(".*"), "x.*y.*.*"), (Pieces{"-x", "+.*", "-y", "+.*", "+.*"}));
  EXPECT_EQ(pieces("x", ""), Pieces());
}

TEST(Pattern, StepsOverEmptyMatches) {
  EXPECT_EQ(pieces("b*", "abba"), (Pieces{"-a", "+bb", "-a"}));
  EXPECT_EQ(pieces("(?=b)", "你bä"), (Pieces{"-你", "-bä"}));
}

TEST(Pattern, LooksBehindTheLastMatch) { EXPECT_EQ(pieces("(?<=a)b|a", "abb"), (Pieces{"+a", "+b", "-b"})); }

TEST(Pattern, ReadsRubysSyntax) {
  EXPECT_EQ(pieces("^b", "a\nb"), (Pieces{"-a\n", "+b"}));                 // anchors are those of lines
  EXPECT_EQ(pieces("a.b", "a\nb"), (Pieces{"-a\nb"}));                     // the dot stops at newlines
  EXPECT_EQ(pieces("(?m:a.b)", "a\nb"), (Pieces{"+a\nb"}));                // unless m is on
  EXPECT_EQ(pieces("\\h+", "xyzAf09 "), (Pieces{"-xyz", "+Af09", "- "}));  // a hexadecimal digit
  EXPECT_EQ(pieces("\\v", "a\vb\n"), (Pieces{"-a", "+\v", "-b\n"}));       // one vertical tab
  EXPECT_EQ(pieces("a{,2}b", "aaab"), (Pieces{"-a", "+aab"}));
  EXPECT_EQ(pieces("a{b", "a{b"), (Pieces{"+a{b"}));
  EXPECT_EQ(pieces("\\u4f60", "你好"), (Pieces{"+你", "-好"}));
  EXPECT_EQ(pieces("\\bé", "aé é"), (Pieces{"-aé ", "+é"}));
  EXPECT_EQ(pieces("(?i:'s|'re)", "it'S they'Re"), (Pieces{"-it", "+'S", "- they", "+'Re"}));
  EXPECT_EQ(pieces("(?>a+|b)++", "aabc"), (Pieces{"+aab", "-c"}));
}

TEST(Pattern, RefusesWhatPcre2ReadsDifferently) {
  for (const char* regex :
       {"[a[bc]]", "[[:alpha:]]", "[a&&b]", "[]a]", "(?<name>a)", "(a)\\1", "\\k<a>", "a{2,3}+", "\\Ka", "\\X", "[\\W]", "a\\"}) {
    const Result<std::string> translated = oniguruma_to_pcre2(regex);
    ASSERT_FALSE(translated.ok()) << regex;
    EXPECT_NE(translated.error().message.find("offset"), std::string::npos) << translated.error().message;
  }
}

TEST(Pattern, FailsInsteadOfSplittingWrongWhenMatchingExplodes) {
  const std::vector<std::string> found = pieces("(?:a|a|aa)+$", cat(std::string(60, 'a'), 'b'));
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found.back().find("gave up"), std::string::npos) << found.back();
}

TEST(Pattern, NeverHitsTheLimitOnLongRuns) {
  // As in the o200k pattern: the first alternative tries a whole run of capitals and steps all the way back.
  const std::string text(3'000'000, 'A');
  EXPECT_EQ(pieces("[\\p{Lu}\\p{M}]*[\\p{Ll}\\p{M}]+|[\\p{Lu}\\p{M}]+[\\p{Ll}\\p{M}]*", text).size(), 1u);
  EXPECT_EQ(pieces("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", std::string(3'000'000, ' ')).size(), 1u);
}

}  // namespace
}  // namespace lamina::text
