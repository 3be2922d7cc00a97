#pragma once
// Golden checkpoints: ../shared/golden/models when it is there, else the few copied to tests/golden/models.

#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"

namespace lamina::golden {

struct Case {
  std::string name;
  std::string folder;
  double bf16_change = 0;  // largest logit change by bf16 inputs
  Json golden;
};

/// Whether all cases are at hand, not only the copied ones.
bool has_shared();
/// Cases of cases.tsv whose folder exists.
std::vector<std::string> names();
Case load(const std::string& name);

struct Block {
  std::vector<TokenId> prompt;
  std::vector<int64_t> positions;  // of the rows of logits
  std::vector<std::vector<double>> logits;
  std::vector<TokenId> greedy;  // empty: not to be compared
};
/// The main block, or the "long" one.
Block block(const Json& golden);

std::vector<double> numbers(const Json& array);

struct Output {
  std::vector<float> logits;  // [prompt, vocab]
  std::vector<TokenId> greedy;
  std::vector<std::vector<float>> captured;
};
/// The prompt's logits, captured states, and `new_tokens` greedy tokens after it.
Output run(Engine& engine, const std::vector<TokenId>& prompt, int new_tokens);
std::vector<float> embed(Engine& engine, const std::vector<TokenId>& prompt);

/// A small pool and everything else as the command line has it.
EngineOptions options(const Case& golden_case, const std::string& isa, const std::string& dtype);
/// Paths this machine can run.
std::vector<std::string> isas();

/// Largest absolute difference at the block's positions.
double worst_difference(const Block& block, const std::vector<float>& logits);

}  // namespace lamina::golden
