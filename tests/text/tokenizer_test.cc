#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/strings.h"
#include "tests/text/vectors.h"

namespace lamina::text_test {
namespace {

constexpr std::string_view kSmall = R"({
  "added_tokens": [{"id": 9, "content": "<s>", "special": true}, {"id": 10, "content": "<think>", "special": false}],
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<": 3, "s": 4, ">": 5, "<s": 6, "<s>": 9}, "merges": ["a b", "< s", "<s >"]}
})";

using Ids = std::vector<TokenId>;

TEST(Tokenizer, TakesWhatAUserWroteAsPlainText) {
  const Tokenizer tokenizer = Tokenizer::parse(kSmall, "test").value();
  EXPECT_EQ(*tokenizer.encode("a<s>b"), (Ids{0, 9, 1}));
  EXPECT_EQ(*tokenizer.encode("a<s>b", {.match_special = false}), (Ids{0, 6, 5, 1}));  // not even by a merge
  EXPECT_EQ(*tokenizer.encode("<think>ab", {.match_special = false}), (Ids{10, 2}));
}

TEST(Tokenizer, KnowsTokensByIdAndText) {
  const Tokenizer tokenizer = Tokenizer::parse(kSmall, "test").value();
  EXPECT_EQ(tokenizer.vocab_size(), 11);
  EXPECT_EQ(tokenizer.id_of("ab"), 2);
  EXPECT_EQ(tokenizer.id_of("<think>"), 10);
  EXPECT_EQ(tokenizer.id_of("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.token(9), "<s>");
  EXPECT_EQ(tokenizer.token(7), std::nullopt);
  EXPECT_EQ(tokenizer.token(-1), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(9));
  EXPECT_FALSE(tokenizer.is_special(10));
}

TEST(Tokenizer, DecodesIdsWithoutATokenToNothing) {
  const Tokenizer tokenizer = Tokenizer::parse(kSmall, "test").value();
  EXPECT_EQ(tokenizer.decode(Ids{-5, 7, 8, 11, 319, 1 << 30}, false), "");
}

TEST(Tokenizer, RefusesInvalidUtf8) {
  const Tokenizer tokenizer = Tokenizer::parse(kSmall, "test").value();
  for (const std::string_view text : {"a\xFF", "\xC0\x80", "ab\xED\xA0\x80", "\xE4\xBD"}) {
    const Result<Ids> ids = tokenizer.encode(text);
    ASSERT_FALSE(ids.ok());
    EXPECT_NE(ids.error().message.find("not valid UTF-8 at byte"), std::string::npos);
  }
}

TEST(Tokenizer, ReadsMergesOfTokensThatHoldASpace) {
  const Tokenizer tokenizer = Tokenizer::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, " ": 1, "b": 2, "a ": 3, "a b": 4},
      "merges": [["a", " "], ["a ", "b"]]}})",
                                               "test")
                                  .value();
  EXPECT_EQ(*tokenizer.encode("a ba "), (Ids{4, 3}));
}

TEST(Tokenizer, FailsWhereTheUnknownTokenIsNone) {
  const Tokenizer tokenizer =
      Tokenizer::parse(R"({"model": {"type": "BPE", "unk_token": "<unk>", "vocab": {"a": 0}, "merges": []}})", "test").value();
  EXPECT_EQ(*tokenizer.encode("aa"), (Ids{0, 0}));
  const Result<Ids> ids = tokenizer.encode("ab");
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.error().message.find("unk_token \"<unk>\""), std::string::npos);
}

TEST(Tokenizer, ReadsBosAndEosInBothForms) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tokenizer_config_forms";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << kSmall;
  const auto with_config = [&](const char* config) {
    std::ofstream(folder / "tokenizer_config.json") << config;
    return Tokenizer::load(folder.string());
  };
  const Tokenizer both = with_config(R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}})").value();
  EXPECT_EQ(both.bos_token(), "<s>");
  EXPECT_EQ(both.eos_token(), "</s>");
  EXPECT_EQ(with_config(R"({"bos_token": null})")->bos_token(), std::nullopt);
  const Result<Tokenizer> wrong = with_config(R"({"bos_token": 1})");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("tokenizer_config.json: bos_token: expected a string"), std::string::npos) << wrong.error().message;
  std::filesystem::remove_all(folder);
}

using Merges = std::vector<std::pair<std::string, std::string>>;

/// Repeats: the first merge of the list that applies anywhere is done at its leftmost place.
std::vector<std::string> textbook_bpe(std::vector<std::string> symbols, const Merges& merges) {
  for (bool merged = true; merged;) {
    merged = false;
    for (size_t m = 0; m < merges.size() && !merged; ++m) {
      for (size_t i = 0; i + 1 < symbols.size() && !merged; ++i) {
        if (symbols[i] != merges[m].first || symbols[i + 1] != merges[m].second) continue;
        symbols[i] += merges[m].second;
        symbols.erase(symbols.begin() + i + 1);
        merged = true;
      }
    }
  }
  return symbols;
}

/// A BPE of `count` random merges over a few characters, the space mark among them.
Tokenizer random_bpe(std::mt19937& rng, size_t count, const std::vector<std::string>& letters, Merges& merges) {
  std::vector<std::string> tokens = letters;
  while (merges.size() < count) {
    const std::string left = tokens[rng() % tokens.size()], right = tokens[rng() % tokens.size()];
    if (left.size() + right.size() > 15 || std::ranges::find(tokens, left + right) != tokens.end()) continue;
    merges.emplace_back(left, right);
    tokens.push_back(left + right);
  }
  Json vocab = Json::object(), list = Json::array(), model = Json::object(), root = Json::object();
  for (size_t i = 0; i < tokens.size(); ++i) vocab.set(tokens[i], i);
  for (const auto& [left, right] : merges) list.push(left + " " + right);
  model.set("type", "BPE");
  model.set("vocab", vocab);
  model.set("merges", list);
  root.set("model", model);
  return Tokenizer::parse(root.dump(), "test").value();
}

TEST(Tokenizer, MatchesTheTextbookAlgorithmOnWordsOfAnyLength) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 rng(seed);
  const std::vector<std::string> letters = {"a", "b", "c", "\u2581"};
  for (int grammar = 0; grammar < 40; ++grammar) {
    Merges merges;
    const Tokenizer tokenizer = random_bpe(rng, 1 + rng() % 30, letters, merges);
    for (int round = 0; round < 12; ++round) {
      std::vector<std::string> symbols;
      for (size_t n = 1 + rng() % (round % 6 == 0 ? 500 : 40); n > 0; --n) symbols.push_back(letters[rng() % letters.size()]);
      Ids expected;
      for (const std::string& symbol : textbook_bpe(symbols, merges)) expected.push_back(*tokenizer.id_of(symbol));
      const std::string word = join(symbols, "");
      ASSERT_EQ(*tokenizer.encode(word), expected) << word;
    }
  }
}

class RealTokenizerFile : public testing::TestWithParam<std::string> {};

TEST_P(RealTokenizerFile, NeverMakesUserTextASpecialToken) {
  const Result<Tokenizer> tokenizer = Tokenizer::load(real_folder(GetParam()));
  if (!tokenizer.ok()) GTEST_SKIP() << tokenizer.error().message;
  const std::optional<TokenId> unknown = tokenizer->id_of("<unk>");
  size_t special = 0;
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
    if (!tokenizer->is_special(id)) continue;
    ++special;
    const std::string token(*tokenizer->token(id));
    for (const std::string& text : {token, "hi" + token + "\n", token + token, " " + token + "x"}) {
      const Ids ids = tokenizer->encode(text, {.add_special_tokens = false, .match_special = false}).value();
      for (const TokenId got : ids) EXPECT_TRUE(!tokenizer->is_special(got) || got == unknown) << text;
    }
  }
  EXPECT_GT(special, 0u);
}
INSTANTIATE_TEST_SUITE_P(All, RealTokenizerFile, testing::ValuesIn(kRealNames), [](const auto& named) { return named.param; });

}  // namespace
}  // namespace lamina::text_test
