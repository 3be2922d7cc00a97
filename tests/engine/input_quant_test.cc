// Inputs quantised where they are made: the bits of inputs that the matmul quantises, whatever the ranks, in prefill and in decode.

#include <gtest/gtest.h>

#include "tests/engine/toy_engine.h"
#include "tests/support/quant_writer.h"

namespace lamina::engine_test {
namespace {

using fixture::QuantRecipe;
using Kind = QuantRecipe::Kind;

struct Output {
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs, prompt_logprobs;
  bool operator==(const Output&) const = default;
};

Output run(const EngineOptions& options, std::vector<TokenId> prompt, int new_tokens) {
  const auto engine = started(options);
  EngineRequest request = greedy(std::move(prompt), new_tokens);
  request.sampling.top_logprobs = 2;
  request.sampling.prompt_logprobs = true;
  request.all_logits = true;
  auto stream = engine->submit(std::move(request));
  EXPECT_TRUE(stream.ok()) << stream.error().message;
  Output out;
  while (std::optional<EngineEvent> event = (*stream)->next()) {
    EXPECT_EQ(event->error, "");
    out.logits.insert(out.logits.end(), event->prompt_logits.begin(), event->prompt_logits.end());
    out.prompt_logprobs.insert(out.prompt_logprobs.end(), event->prompt_logprobs.begin(), event->prompt_logprobs.end());
    if (event->token) out.tokens.push_back(*event->token);
    if (event->logprob) out.logprobs.push_back(*event->logprob);
  }
  return out;
}

std::vector<QuantRecipe> recipes() {
  return {{.kind = Kind::kFp8Static},
          {.kind = Kind::kFp8},
          {.kind = Kind::kFp8Channel, .inputs = "float"},
          {.kind = Kind::kInt8, .inputs = "int"},
          {.kind = Kind::kPacked, .inputs = "int"}};
}

TEST(InputQuant, WhereItIsDoneChangesNoBit) {
  for (const QuantRecipe& recipe : recipes()) {
    const ToyFolder toy(fixture::quant_toy(recipe).model);
    for (const Topology& topology : std::vector<Topology>{
             {}, {.tp_size = 2}, {.tp_size = 4}, {.pp_size = 2}, {.tp_size = 2, .dp_attention = 2}, {.tp_size = 4, .dp_attention = 2}}) {
      EngineOptions options = toy.options(topology);
      options.dtype = "auto";
      const Output fused = run(options, fixture::toy_prompt(40), 6);
      EXPECT_EQ(fused.tokens.size(), 6U);
      options.boundary_plan = "reference";
      EXPECT_TRUE(run(options, fixture::toy_prompt(40), 6) == fused)
          << recipe.name() << " tp " << topology.tp_size << " pp " << topology.pp_size << " dp " << topology.dp_attention;
    }
  }
}

TEST(InputQuant, DecodeHasTheBitsOfPrefill) {
  for (const QuantRecipe& recipe : recipes()) {
    const ToyFolder toy(fixture::quant_toy(recipe).model);
    for (const Topology& topology : std::vector<Topology>{{}, {.tp_size = 2}}) {
      const Output decoded = run(toy.options(topology), fixture::toy_prompt(20), 8);
      std::vector<TokenId> all = fixture::toy_prompt(20);
      all.insert(all.end(), decoded.tokens.begin(), decoded.tokens.end());
      const Output prefilled = run(toy.options(topology), all, 1);
      ASSERT_EQ(decoded.logprobs.size(), 8U);
      ASSERT_GE(prefilled.prompt_logprobs.size(), 8U);
      const std::vector<TokenLogprob> last(prefilled.prompt_logprobs.end() - 8, prefilled.prompt_logprobs.end());
      EXPECT_TRUE(last == decoded.logprobs) << recipe.name() << " tp " << topology.tp_size;
    }
  }
}

}  // namespace
}  // namespace lamina::engine_test
