// What each rank of a topology holds.

#include <gmock/gmock.h>

#include "tests/plan/support.h"

namespace lamina {
namespace {

using plan_test::options_of;
using plan_test::planned;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& config, const Topology& topology) {
  const Result<Inspection> plan = planned(options_of(config, topology));
  return plan.ok() ? "" : plan.error().message;
}

TEST(Ranks, HeadCountsThatDoNotDivideAreRefusedByFlag) {
  EXPECT_THAT(refusal("qwen2.5-7b", {.tp_size = 8}), AllOf(HasSubstr("28 heads"), HasSubstr("--tp-size 8")));
  EXPECT_THAT(refusal("qwen2.5-0.5b", {.tp_size = 4}), AllOf(HasSubstr("14 heads"), HasSubstr("--tp-size 4")));
  // 40 query heads divide by 4, 10 KV heads neither divide nor are divided
  PlanOptions options = options_of("qwen2.5-14b", {.tp_size = 4}, R"({"num_key_value_heads": 10})");
  const auto plan = planned(options);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, AllOf(HasSubstr("10 KV heads"), HasSubstr("--tp-size 4")));
}

TEST(Ranks, SizesAndLayersThatDoNotFitAreRefusedByFlag) {
  EXPECT_THAT(refusal("llama-3.2-1b", {.tp_size = 0}), HasSubstr("--tp-size 0"));
  EXPECT_THAT(refusal("llama-3.2-1b", {.tp_size = 4, .dp_attention = 3}), HasSubstr("--dp-attention 3"));
  EXPECT_THAT(refusal("llama-3.2-1b", {.pp_size = 17}), AllOf(HasSubstr("--pp-size 17"), HasSubstr("16 layers")));
  EXPECT_THAT(refusal("llama-3.2-1b", {.pp_size = 2, .pp_layer_partition = {9, 8}}), HasSubstr("--pp-layer-partition"));
  EXPECT_THAT(refusal("llama-3.2-1b", {.tp_size = 64}), AllOf(HasSubstr("32 heads"), HasSubstr("--tp-size 64")));
}

TEST(Ranks, AttentionDividesOverTpByDpAttention) {
  // 14 heads at tp 4: refused by tp alone, allowed when attention is 2 x 2
  EXPECT_EQ(refusal("qwen2.5-0.5b", {.tp_size = 4, .dp_attention = 2}), "");
  const auto plan = planned(options_of("llama-3.1-8b", {.tp_size = 8, .dp_attention = 2}));
  ASSERT_TRUE(plan.ok());
  for (const ModelPlan& rank : plan->ranks) EXPECT_EQ(rank.built.model->kv_shapes().front().kv_heads, 2);
}

TEST(Ranks, FewerKvHeadsThanRanksAreReplicatedAndTheirBytesCounted) {
  const auto four = planned(options_of("qwen2.5-7b", {.tp_size = 4}));
  const auto eight = planned(options_of("qwen2.5-7b", {.tp_size = 8}, R"({"num_attention_heads": 32, "head_dim": 112})"));
  ASSERT_TRUE(four.ok());
  ASSERT_TRUE(eight.ok()) << eight.error().message;
  EXPECT_EQ(eight->ranks.size(), 8U);
  for (const ModelPlan& rank : eight->ranks) EXPECT_EQ(rank.built.model->kv_shapes().front().kv_heads, 1);
  const auto per_dim = [](const Inspection& plan) {
    int64_t bytes = 0;
    for (const MemoryPlan& memory : plan.memory) bytes += memory.kv_bytes_per_token;
    return bytes / plan.ranks.front().built.model->kv_shapes().front().k_dim;
  };
  EXPECT_EQ(per_dim(*eight), 2 * per_dim(*four));
}

TEST(Ranks, StagesHoldTheirLayersUnderGlobalNames) {
  const auto plan = planned(options_of("llama-3.2-1b", {.tp_size = 2, .pp_size = 3}));
  ASSERT_TRUE(plan.ok());
  const std::pair<int64_t, int64_t> stages[] = {{0, 5}, {5, 5}, {10, 6}};
  for (const ModelPlan& rank : plan->ranks) {
    const auto [begin, count] = stages[rank.rank / 2];
    EXPECT_EQ(rank.stage.begin, begin);
    EXPECT_EQ(rank.stage.count, count);
    const ParamList& params = *rank.built.params;
    for (int64_t layer = 0; layer < 16; ++layer) {
      const std::string name = "model.layers." + std::to_string(layer) + ".mlp.down_proj.weight";
      EXPECT_EQ(params.find(name) != nullptr, layer >= begin && layer < begin + count) << name;
    }
    // tied: the embedding stands on both ends
    EXPECT_EQ(params.find("model.embed_tokens.weight") != nullptr, rank.rank / 2 != 1);
    EXPECT_EQ(params.find("model.norm.weight") != nullptr, rank.rank / 2 == 2);
    EXPECT_EQ(rank.built.model->kv_shapes().size(), static_cast<size_t>(count));
  }
}

}  // namespace
}  // namespace lamina
