// verify: equal engines pass, and of unequal ones the first boundary that differs is named.

#include "engine/verify.h"

#include <gmock/gmock.h>

#include "tests/engine/toy_engine.h"

namespace lamina::engine_test {
namespace {

Result<Prompts> some_prompts(const Engine&) { return Prompts{fixture::toy_prompt(1), fixture::toy_prompt(33), fixture::toy_prompt(50)}; }

VerifyReport verified(const EngineOptions& reference, const EngineOptions& candidate) {
  const Result<VerifyReport> report = verify({.reference = reference, .candidate = candidate, .new_tokens = 8, .prompts = some_prompts});
  EXPECT_TRUE(report.ok()) << report.error().message;
  return report.ok() ? *report : VerifyReport{};
}

TEST(Verify, TopologiesOfOneModelAgree) {
  const ToyFolder toy;
  for (const Topology& topology :
       {Topology{.tp_size = 2}, Topology{.tp_size = 2, .pp_size = 2}, Topology{.tp_size = 2, .dp_attention = 2}}) {
    const VerifyReport report = verified(toy.options(), toy.options(topology));
    EXPECT_TRUE(report.ok());
    EXPECT_TRUE(report.argmax_equal);
    EXPECT_EQ(report.prompts, 3);
    EXPECT_EQ(report.positions, 84);
    EXPECT_EQ(report.new_tokens, 24);
    EXPECT_EQ(report.new_tokens_equal, 24);
    EXPECT_GT(report.largest_logit, 0.1);
    EXPECT_LT(report.max_abs_diff, report.tolerance);
    EXPECT_FALSE(report.first_difference.has_value());
  }
}

TEST(Verify, QuantisedInputsMayFallOnTheOtherSideOfARounding) {
  const ToyFolder toy;
  for (const char* const scheme : {"int8", "int4", "fp8"}) {
    EngineOptions one = toy.options(), two = toy.options({.tp_size = 2});
    one.quantization = two.quantization = scheme;
    const VerifyReport report = verified(one, two);
    EXPECT_TRUE(report.ok()) << scheme << ' ' << report.max_abs_diff << ' ' << report.tolerance;
    one.act_quant = two.act_quant = "off";
    const VerifyReport plain = verified(one, two);
    EXPECT_TRUE(plain.ok()) << scheme << ' ' << plain.max_abs_diff << ' ' << plain.tolerance;
    EXPECT_LT(plain.tolerance, report.tolerance / 10);
  }
}

struct Planted {
  const char* tensor;
  Topology topology;
  int64_t layer;
  const char* boundary;
};

class VerifyFinds : public testing::TestWithParam<Planted> {};

/// The candidate has other values in one tensor; its sum is first read at the boundary behind it.
TEST_P(VerifyFinds, TheFirstBoundaryThatDiffers) {
  const Planted& planted = GetParam();
  const fixture::ToyModel model = fixture::toy_model(ToyFolder::shape());
  fixture::ToyModel spoilt = model;
  spoilt.tensors.at(planted.tensor) = fixture::random_tensor("another", model.tensors.at(planted.tensor).shape, 0.2);
  const ToyFolder good(model), bad(spoilt);
  const VerifyReport report = verified(good.options(), bad.options(planted.topology));
  EXPECT_FALSE(report.ok());
  ASSERT_TRUE(report.first_difference.has_value());
  EXPECT_EQ(report.first_difference->layer, planted.layer);
  EXPECT_EQ(report.first_difference->boundary, planted.boundary);
  EXPECT_GT(report.first_difference->max_abs_diff, 0);
}

INSTANTIATE_TEST_SUITE_P(Faults, VerifyFinds,
                         testing::Values(Planted{"model.embed_tokens.weight", {.tp_size = 2}, 0, "attention"},
                                         Planted{"model.layers.0.self_attn.o_proj.weight", {.tp_size = 2}, 0, "ffn"},
                                         Planted{"model.layers.1.mlp.down_proj.weight", {.tp_size = 2, .pp_size = 2}, 2, "attention"},
                                         Planted{"model.layers.2.self_attn.v_proj.weight", {.tp_size = 2, .dp_attention = 2}, 2, "ffn"},
                                         Planted{"model.layers.2.mlp.up_proj.weight", {.tp_size = 2, .pp_size = 2}, 3, "final"},
                                         Planted{"lm_head.weight", {.tp_size = 2}, 3, "logits"}));

TEST(Verify, AnEngineThatDoesNotStartIsAnError) {
  const ToyFolder toy;
  const auto report = verify({.reference = toy.options(), .candidate = toy.options({.tp_size = 3}), .prompts = some_prompts});
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, testing::HasSubstr("--tp-size 3"));
}

}  // namespace
}  // namespace lamina::engine_test
