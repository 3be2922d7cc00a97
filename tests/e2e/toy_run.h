#pragma once
// One start and one prompt on a made-up checkpoint.

#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/toy_model.h"

namespace lamina::e2e {

struct Served {
  std::string refusal;        // why the start or the request was refused; empty: served
  std::vector<float> logits;  // [prompt, vocab]
  std::string log;            // what went to stderr
  size_t weight_bytes = 0;
};

/// A small pool, and everything else as the command line has it.
EngineOptions toy_options(const fixture::TempFolder& folder);
/// Starts an engine and asks for the logits of every position of `prompt`.
Served serve(const EngineOptions& options, const std::vector<TokenId>& prompt);
Served serve(const fixture::TempFolder& folder, const std::vector<TokenId>& prompt);
Served serve(const fixture::ToyModel& model, const std::vector<TokenId>& prompt);

/// Largest difference to the oracle that a correct engine may have in float32.
inline constexpr double kLogitTolerance = 1e-3;
/// Difference that a wrong reading of a config must make, so that a test can tell it from rounding.
inline constexpr double kVisible = 0.05;

/// Expects logits equal to the oracle's at every position.
void expect_oracle(const Served& served, const oracle::Model& wanted, const fixture::Tensors& tensors, const std::vector<TokenId>& prompt);
/// Expects the model to be served with logits equal to the oracle's, for a prompt of 40 tokens.
void expect_served(const fixture::ToyModel& model, const oracle::Model& wanted);

/// Greedy or seeded tokens after `prompt`, and why they ended.
struct Tokens {
  std::string refusal;
  std::vector<TokenId> ids;
  std::string text;
  FinishReason finish = FinishReason::kNone;
};
Tokens generate(Engine& engine, const std::vector<TokenId>& prompt, const SamplingParams& sampling);

}  // namespace lamina::e2e
