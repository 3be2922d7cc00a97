// What runs on several threads here; under the thread sanitizer the only file of the folder.
#include <gtest/gtest.h>

#include <thread>

#include "base/strings.h"
#include "tests/text/vectors.h"
#include "text/tokenizer.h"

namespace lamina::text_test {
namespace {

using Ids = std::vector<TokenId>;

TEST(Tokenizer, GivesThreadsTheSameIds) {
  const std::vector<NamedTokenizer> all = synthetic_tokenizers();
  if (all.empty()) GTEST_SKIP() << "no goldens at " << kGoldenFolder;
  for (const NamedTokenizer& named : all) {
    std::vector<std::string> texts;
    for (int i = 0; i < 50; ++i) texts.push_back(cat("the quick hello world ", i, " don't café 你好 ", i * 7919, "\n  embedding"));
    std::vector<Ids> expected;
    for (const std::string& text : texts) expected.push_back(named.tokenizer.encode(text).value());
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t, copy = named.tokenizer] {
        for (size_t i = 0; i < texts.size(); ++i) wrong[t] += *copy.encode(texts[i]) != expected[i];
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4)) << named.name;
  }
}

}  // namespace
}  // namespace lamina::text_test
