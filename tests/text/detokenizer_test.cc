// Streaming gives, joined, what decoding at once gives, and never gives out what a later token could change.
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "tests/text/vectors.h"

namespace lamina::text_test {
namespace {

using Rng = std::mt19937;

size_t below(Rng& rng, size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(rng); }

void expect_streams(const Tokenizer& tokenizer, Detokenizer& detokenizer, std::span<const TokenId> ids, bool skip_special) {
  std::string streamed;
  for (const TokenId id : ids) {
    const std::string delta = detokenizer.feed(id);
    ASSERT_TRUE(is_valid_utf8(delta));
    streamed += delta;
  }
  streamed += detokenizer.flush();
  ASSERT_EQ(streamed, tokenizer.decode(ids, skip_special)) << testing::PrintToString(std::vector<TokenId>(ids.begin(), ids.end()));
}

/// Ids of anything: mostly tokens, some beyond the vocabulary, and runs of single-byte tokens, which break characters best.
std::vector<TokenId> random_ids(const Tokenizer& tokenizer, const std::vector<TokenId>& bytes, Rng& rng) {
  std::vector<TokenId> ids;
  const size_t size = below(rng, 30);
  while (ids.size() < size) {
    if (!bytes.empty() && below(rng, 2) == 0) {
      ids.push_back(bytes[below(rng, bytes.size())]);
    } else {
      ids.push_back(static_cast<TokenId>(below(rng, tokenizer.vocab_size() + 3)) - 1);
    }
  }
  return ids;
}

std::vector<TokenId> byte_tokens(const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::optional<std::string_view> token = tokenizer.token(id);
    if (token && (token->size() <= 2 || (token->size() == 6 && token->starts_with("<0x")))) ids.push_back(id);
  }
  return ids;
}

/// All texts of the goldens in one, as ids: characters of every length to cut through.
std::vector<TokenId> natural_ids(const Tokenizer& tokenizer) {
  std::string text = "Zürich 你好，世界 😀👩‍👩‍👧 no\u00A0break\n  two  spaces <0x41> ▁▁x ";
  if (const std::optional<Json> golden = read_json(kGoldenFolder + "/qwen3.json"))
    for (const Json& c : golden->find("cases")->as_array()) text += c.find("text")->as_string();
  return tokenizer.encode(text).value();
}

void check_property(const NamedTokenizer& named, int rounds) {
  SCOPED_TRACE(named.name);
  const Tokenizer& tokenizer = named.tokenizer;
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rng rng(seed);
  const std::vector<TokenId> bytes = byte_tokens(tokenizer), natural = natural_ids(tokenizer);
  for (const bool skip_special : {false, true}) {
    Detokenizer detokenizer(tokenizer, skip_special);
    for (int round = 0; round < rounds; ++round) {
      std::vector<TokenId> ids;
      if (round % 2 == 0) {
        ids = random_ids(tokenizer, bytes, rng);
      } else if (!natural.empty()) {
        const size_t begin = below(rng, natural.size()), size = std::min(below(rng, 60), natural.size() - begin);
        ids.assign(natural.begin() + begin, natural.begin() + begin + size);
      }
      expect_streams(tokenizer, detokenizer, ids, skip_special);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

class StreamedText : public testing::TestWithParam<std::string> {};

TEST_P(StreamedText, JoinsToTheDecodedText) {
  Result<Tokenizer> tokenizer = Tokenizer::load(real_folder(GetParam()));
  if (!tokenizer.ok()) GTEST_SKIP() << tokenizer.error().message;
  check_property({GetParam(), *tokenizer}, 1500);
}
INSTANTIATE_TEST_SUITE_P(Real, StreamedText, testing::ValuesIn(kRealNames), [](const auto& named) { return named.param; });

TEST(StreamedTextOfSynthetic, JoinsToTheDecodedText) {
  const std::vector<NamedTokenizer> all = synthetic_tokenizers();
  if (all.empty()) GTEST_SKIP() << "no goldens at " << kGoldenFolder;
  for (const NamedTokenizer& named : all) check_property(named, 200);
}

constexpr std::string_view kByteLevel = R"({
  "model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "ä": 2, "½": 3, "ł": 4, "Ġb": 5}, "merges": []},
  "added_tokens": [], "decoder": {"type": "ByteLevel"}})";  // ä ½ ł spell the bytes E4 BD A0 of 你
constexpr std::string_view kMetaspace = R"({
  "model": {"type": "BPE", "vocab": {"▁": 0, "▁leading": 1, "▁x": 2, "<0xE4>": 3, "<0xBD>": 4, "<0xA0>": 5}, "merges": [], "byte_fallback": true},
  "added_tokens": [],
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})";

std::vector<std::string> deltas(std::string_view json, const std::vector<TokenId>& ids) {
  const Tokenizer tokenizer = Tokenizer::parse(json, "test").value();
  Detokenizer detokenizer(tokenizer, false);
  std::vector<std::string> out;
  for (const TokenId id : ids) out.push_back(detokenizer.feed(id));
  out.push_back(detokenizer.flush());
  return out;
}

using Deltas = std::vector<std::string>;

TEST(Detokenizer, HoldsBytesUntilTheCharacterIsWhole) {
  EXPECT_EQ(deltas(kByteLevel, {0, 2, 3, 4, 0}), (Deltas{"a", "", "", "你", "a", ""}));
}

TEST(Detokenizer, GivesAnUnfinishedCharacterAsOneReplacement) {
  EXPECT_EQ(deltas(kByteLevel, {2, 3}), (Deltas{"", "", "\uFFFD"}));
  EXPECT_EQ(deltas(kByteLevel, {2, 3, 0}), (Deltas{"", "", "\uFFFDa", ""}));
}

TEST(Detokenizer, KeepsAFinishedCharacterBeforeATokenThatStartsWithASpace) {
  EXPECT_EQ(deltas(kByteLevel, {2, 3, 4, 5}), (Deltas{"", "", "你", " b", ""}));
  EXPECT_EQ(deltas(kByteLevel, {2, 3, 5}), (Deltas{"", "", "\uFFFD b", ""}));
}

TEST(Detokenizer, DropsOneLeadingSpaceOfTheWholeTextOnly) {
  EXPECT_EQ(deltas(kMetaspace, {0, 1, 2}), (Deltas{"", " leading", " x", ""}));
  EXPECT_EQ(deltas(kMetaspace, {1, 0, 2}), (Deltas{"leading", " ", " x", ""}));
}

TEST(Detokenizer, JudgesARunOfFallbackBytesWhenItEnds) {
  EXPECT_EQ(deltas(kMetaspace, {3, 4, 5, 2}), (Deltas{"", "", "", "你 x", ""}));
  EXPECT_EQ(deltas(kMetaspace, {3, 4, 5, 4}), (Deltas{"", "", "", "", "\uFFFD\uFFFD\uFFFD\uFFFD"}));
}

TEST(Detokenizer, StartsAnewAfterFlush) {
  const Tokenizer tokenizer = Tokenizer::parse(kMetaspace, "test").value();
  Detokenizer detokenizer(tokenizer, false);
  EXPECT_EQ(detokenizer.feed(1), "leading");
  EXPECT_EQ(detokenizer.flush(), "");
  EXPECT_EQ(detokenizer.feed(1), "leading");
}

TEST(Detokenizer, GivesNothingForIdsWithoutAToken) { EXPECT_EQ(deltas(kByteLevel, {-1, 6, 1 << 30, 0}), (Deltas{"", "", "", "a", ""})); }

}  // namespace
}  // namespace lamina::text_test
