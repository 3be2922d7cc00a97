// The demo checkpoint recites the glosses it was trained on, at the default dtype and with many requests in a batch.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "tests/e2e/ask.h"

namespace lamina::e2e {
namespace {

const std::string kModel = LAMINA_SOURCE_DIR "/models/demo";

struct Gloss {
  std::string word;
  std::string text;
};

/// Every `step`-th line of glosses.tsv.
std::vector<Gloss> glosses(size_t step) {
  std::vector<Gloss> out;
  std::ifstream file(kModel + "/glosses.tsv");
  size_t number = 0;
  for (std::string line; std::getline(file, line); ++number) {
    if (number % step == 0) out.push_back({line.substr(0, line.find('\t')), line.substr(line.find('\t') + 1)});
  }
  return out;
}

std::string with_article(const std::string& word) {
  return (std::string("aeiou").find(word[0]) != std::string::npos ? "an " : "a ") + word;
}

/// Answers ended by the model itself that equal the gloss, of one engine over all `wanted`.
size_t recited(Engine& engine, const std::vector<Gloss>& wanted, const std::function<std::string(const std::string&)>& question) {
  std::vector<std::string> prompts;
  for (const Gloss& gloss : wanted) prompts.push_back("<|user|>" + question(gloss.word) + "<|end|><|assistant|>");
  const std::vector<Answer> answers = ask(engine, prompts, 96);
  size_t exact = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool equal = answers[i].text == wanted[i].text && answers[i].finish == FinishReason::kStop;
    exact += equal ? 1 : 0;
    if (!equal) std::printf("%s: \"%s\", wanted \"%s\"\n", wanted[i].word.c_str(), answers[i].text.c_str(), wanted[i].text.c_str());
  }
  std::printf("%zu of %zu glosses are exact\n", exact, wanted.size());
  return exact;
}

std::unique_ptr<Engine> start() {
  EngineOptions options;
  options.model = kModel;
  auto engine = Engine::start(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? std::move(*engine) : nullptr;
}

TEST(DemoGlosses, ThreeHundredAreRecited) {
  const std::vector<Gloss> wanted = glosses(20);
  ASSERT_EQ(wanted.size(), 300U);
  const auto engine = start();
  ASSERT_NE(engine, nullptr);
  EXPECT_GE(recited(*engine, wanted, [](const std::string& word) { return "What is " + with_article(word) + "?"; }), 299U);  // 99.5 %
}

TEST(DemoGlosses, FullListIsRecitedForEveryPhrasing) {
  const std::vector<Gloss> wanted = glosses(1);
  ASSERT_EQ(wanted.size(), 6000U);
  const auto engine = start();
  ASSERT_NE(engine, nullptr);
  const std::function<std::string(const std::string&)> phrasings[] = {
      [](const std::string& word) { return "What is " + with_article(word) + "?"; },
      [](const std::string& word) { return "What is " + word + "?"; },
      [](const std::string& word) { return "Define " + word + "."; },
      [](const std::string& word) { return "What does " + word + " mean?"; },
      [](const std::string& word) { return "Tell me what " + with_article(word) + " is."; },
  };
  for (const auto& phrasing : phrasings) EXPECT_GE(recited(*engine, wanted, phrasing), 5970U) << phrasing("word");  // 99.5 %
}

}  // namespace
}  // namespace lamina::e2e
