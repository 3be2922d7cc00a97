#pragma once
// Many questions to one engine at once.

#include <string>
#include <vector>

#include "engine/engine.h"

namespace lamina::e2e {

struct Answer {
  std::string text;
  FinishReason finish = FinishReason::kNone;
};

/// The greedy answers, in order. All prompts are submitted before the first answer is read.
std::vector<Answer> ask(Engine& engine, const std::vector<std::string>& prompts, int max_new_tokens);

}  // namespace lamina::e2e
