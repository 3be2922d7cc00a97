// A checkpoint trained by others: SentencePiece tokens with byte fallback, f32 weights, tied head.

#include <gtest/gtest.h>

#include "tests/e2e/ask.h"

namespace lamina::e2e {
namespace {

TEST(Stories, GreedyTextIsTheKnownOne) {
  EngineOptions options;
  options.model = LAMINA_SOURCE_DIR "/../shared/models/stories260k";
  if (!is_directory(options.model)) GTEST_SKIP() << options.model << " is absent";
  auto engine = Engine::start(options);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const std::vector<Answer> answers = ask(**engine, {"Once upon a time"}, 48);
  const std::string begins =
      ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball.";
  EXPECT_EQ(answers[0].text.substr(0, begins.size()), begins);
}

}  // namespace
}  // namespace lamina::e2e
