// The vectors of ../shared/golden/tokenizers: ids and texts of Hugging Face's library.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/text/vectors.h"

namespace lamina::text_test {
namespace {

struct Counts {
  size_t cases = 0, decode_cases = 0;
};

void expect_decoded(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, const Json& expected) {
  EXPECT_EQ(tokenizer.decode(ids, false), expected.find("decoded")->as_string());
  EXPECT_EQ(tokenizer.decode(ids, true), expected.find("decoded_skip_special")->as_string());
}

Counts check(const Tokenizer& tokenizer, const Json& golden) {
  Counts counts;
  for (const Json& c : golden.find("cases")->as_array()) {
    const std::string& text = c.find("text")->as_string();
    SCOPED_TRACE(c.find("text")->dump());
    const Result<std::vector<TokenId>> ids = tokenizer.encode(text), raw = tokenizer.encode(text, {.add_special_tokens = false});
    if (c.find("error") != nullptr) {
      EXPECT_FALSE(ids.ok());
      continue;
    }
    if (!ids.ok() || !raw.ok()) {
      ADD_FAILURE() << (ids.ok() ? raw : ids).error().message;
      continue;
    }
    EXPECT_EQ(*ids, ids_of(*c.find("ids")));
    EXPECT_EQ(*raw, ids_of(*c.find("ids_raw")));
    expect_decoded(tokenizer, *ids, c);
    ++counts.cases;
  }
  const Json* decode_cases = golden.find("decode_cases");
  if (decode_cases == nullptr) return counts;
  for (const Json& c : decode_cases->as_array()) {
    SCOPED_TRACE(c.find("ids")->dump());
    expect_decoded(tokenizer, ids_of(*c.find("ids")), c);
    ++counts.decode_cases;
  }
  return counts;
}

class RealTokenizer : public testing::TestWithParam<std::string> {};

TEST_P(RealTokenizer, AgreesWithTheLibrary) {
  const std::optional<Json> golden = read_json(kGoldenFolder + "/" + GetParam() + ".json");
  if (!golden) GTEST_SKIP() << "no goldens at " << kGoldenFolder;
  const std::string folder = real_folder(GetParam());
  if (!file_exists(folder + "/tokenizer.json")) GTEST_SKIP() << "no " << folder << ": npm install the packages, or set LAMINA_NODE_MODULES";
  const Result<Tokenizer> tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_GE(tokenizer->vocab_size(), golden->find("n_vocab")->as_integer());
  const Counts counts = check(*tokenizer, *golden);
  std::printf("%s: %zu cases, %zu decode cases\n", GetParam().c_str(), counts.cases, counts.decode_cases);
}
INSTANTIATE_TEST_SUITE_P(All, RealTokenizer, testing::ValuesIn(kRealNames), [](const auto& named) { return named.param; });

TEST(SyntheticTokenizers, AgreeWithTheLibrary) {
  const std::vector<std::string> names = synthetic_names();
  if (names.empty()) GTEST_SKIP() << "no goldens at " << kGoldenFolder;
  size_t cases = 0, bpe = 0, refused = 0;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::optional<Json> golden = read_json(kGoldenFolder + "/synthetic/" + name + ".json");
    const Json& json = *golden->find("tokenizer");
    const std::string& type = json.find("model")->find("type")->as_string();
    const Result<Tokenizer> tokenizer = Tokenizer::parse(json.dump(), name);
    if (type == "BPE") {
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
      cases += check(*tokenizer, *golden).cases;
      ++bpe;
    } else {
      ASSERT_FALSE(tokenizer.ok());
      EXPECT_NE(tokenizer.error().message.find("\"" + type + "\" is not supported yet"), std::string::npos) << tokenizer.error().message;
      ++refused;
    }
  }
  std::printf("synthetic: %zu BPE files with %zu cases; %zu of other models refused by name\n", bpe, cases, refused);
}

}  // namespace
}  // namespace lamina::text_test
