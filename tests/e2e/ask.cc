#include "tests/e2e/ask.h"

#include <gtest/gtest.h>

namespace lamina::e2e {

std::vector<Answer> ask(Engine& engine, const std::vector<std::string>& prompts, int max_new_tokens) {
  const Result<const Tokenizer*> tokenizer = engine.tokenizer();
  EXPECT_TRUE(tokenizer.ok());
  std::vector<EngineRequest> requests;
  for (const std::string& prompt : prompts) {
    Result<std::vector<TokenId>> ids = (*tokenizer)->encode(prompt);
    EXPECT_TRUE(ids.ok()) << prompt;
    EngineRequest& request = requests.emplace_back(EngineRequest{.prompt = std::move(*ids), .sampling = {}});
    request.sampling.temperature = 0;
    request.sampling.max_new_tokens = max_new_tokens;
  }
  const auto streams = engine.submit_together(std::move(requests));
  EXPECT_TRUE(streams.ok());
  std::vector<Answer> answers(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    while (const std::optional<EngineEvent> event = (*streams)[i]->next()) {
      answers[i].text += event->text;
      answers[i].finish = event->finish;
    }
  }
  return answers;
}

}  // namespace lamina::e2e
