// Faults that keep text fluent, planted in a model class: verify finds each and names the boundary behind it, or a check ends the process.

#include <gtest/gtest.h>

#include <cstring>

#include "engine/verify.h"
#include "models/llama.h"
#include "tests/engine/toy_engine.h"

namespace lamina::engine_test {
namespace {

enum class Plant { kBiasOnEveryRank, kDoubledReduction, kForgottenAddend, kDroppedReduction, kLocalLayerId };

/// What attention owes, as rows that may be tampered with.
template <class Change>
Partial tampered(Partial partial, Change change) {
  const PartialAccess::Owed owed = PartialAccess::consume(std::move(partial));
  const ParallelGroup& group = change(owed.values, *owed.group);
  return {owed.values, group};
}

template <Plant kPlant>
class FaultyAttention : public LlamaAttention {
 public:
  FaultyAttention(const ModelBuild& build, LayerId id, const std::string& prefix)
      : LlamaAttention(build, kPlant == Plant::kLocalLayerId ? LayerId(id.value - static_cast<int32_t>(build.stage.begin)) : id, prefix),
        id_(id),
        alone_(&build.context.group("pp")) {}

  Partial forward(ForwardContext& ctx, const Activation& x) const {
    Partial right = LlamaAttention::forward(ctx, x);
    if (id_ != LayerId(1)) return right;
    return tampered(std::move(right), [&](F32View rows, const ParallelGroup& group) -> const ParallelGroup& {
      if (kPlant == Plant::kBiasOnEveryRank && group.rank > 0) {
        for (int64_t r = 0; r < rows.rows; ++r)
          for (int64_t c = 0; c < rows.cols; ++c) rows.at(r, c) += o_proj.bias()[static_cast<size_t>(c)];
      }
      if (kPlant == Plant::kDoubledReduction) group.communicator->all_reduce_sum(rows);
      if (kPlant == Plant::kForgottenAddend && group.rank > 0) {
        for (int64_t r = 0; r < rows.rows; ++r) std::memset(rows.row(r), 0, static_cast<size_t>(rows.cols) * sizeof(float));
      }
      return kPlant == Plant::kDroppedReduction ? *alone_ : group;
    });
  }

 private:
  LayerId id_;
  const ParallelGroup* alone_;  // a group of one: what is owed over it counts as complete
};

template <Plant kPlant>
std::unique_ptr<CausalLM> create(const ModelBuild& build) {
  return std::make_unique<DecoderForCausalLM<DecoderModel<DecoderLayer<FaultyAttention<kPlant>, LlamaMLP>>>>(build);
}

ToyFolder folder() {
  fixture::ToyShape shape = ToyFolder::shape();
  shape.qkv_bias = shape.o_bias = true;
  return ToyFolder(fixture::toy_model(shape));
}

Result<VerifyReport> verified(const ToyFolder& toy, const Topology& topology, ModelEntry entry, const std::string& plan = "fused") {
  EngineOptions candidate = toy.options(topology);
  candidate.boundary_plan = plan;
  candidate.external_models = {entry};
  return verify({.reference = toy.options(), .candidate = candidate, .new_tokens = 4, .prompts = [](const Engine&) -> Result<Prompts> {
                   return Prompts{fixture::toy_prompt(33)};
                 }});
}

struct Planted {
  const char* name;
  std::unique_ptr<CausalLM> (*create)(const ModelBuild& build);
};

class PlantedFault : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, IsFoundAtTheBoundaryBehindIt) {
  const ToyFolder toy = folder();
  for (const std::string plan : {"fused", "reference"}) {
    const Result<VerifyReport> report = verified(toy, {.tp_size = 2}, {"LlamaForCausalLM", GetParam().create}, plan);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_FALSE(report->ok());
    ASSERT_TRUE(report->first_difference.has_value());
    EXPECT_EQ(report->first_difference->layer, 1);
    EXPECT_EQ(report->first_difference->boundary, "ffn");
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFault,
                         testing::Values(Planted{"BiasOnEveryRank", create<Plant::kBiasOnEveryRank>},
                                         Planted{"DoubledReduction", create<Plant::kDoubledReduction>},
                                         Planted{"ForgottenAddend", create<Plant::kForgottenAddend>}),
                         [](const auto& planted) { return planted.param.name; });

TEST(PlantedFaultAtOneRank, IsNone) {
  const Result<VerifyReport> report = verified(folder(), {}, {"LlamaForCausalLM", create<Plant::kBiasOnEveryRank>});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->ok()) << "the oracle finds faults where there are none";
}

TEST(PlantedFaultDeathTest, ADroppedReductionIsACheck) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ToyFolder toy = folder();
  EXPECT_DEATH((void)verified(toy, {.tp_size = 2}, {"LlamaForCausalLM", create<Plant::kDroppedReduction>}),
               "the boundary plan does not fit the owed sum");
}

TEST(PlantedFaultDeathTest, ALocalLayerIdIsACheck) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const ToyFolder toy = folder();
  EXPECT_DEATH((void)verified(toy, {.pp_size = 2}, {"LlamaForCausalLM", create<Plant::kLocalLayerId>}), "layer of another pipeline stage");
}

}  // namespace
}  // namespace lamina::engine_test
