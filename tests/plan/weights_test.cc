// The parameters of a plan: format, who cuts them, bytes on each rank; and the memory beside them.

#include <gmock/gmock.h>

#include "tests/plan/support.h"

namespace lamina {
namespace {

using plan_test::at;
using plan_test::number;
using plan_test::options_of;
using plan_test::planned;
using plan_test::planned_json;
using testing::HasSubstr;

std::string gptq(int group_size) {
  return R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": )" + std::to_string(group_size) +
         R"(, "desc_act": false, "sym": true}})";
}

const Json& parameter(const Json& plan, const std::string& name) {
  for (const Json& param : at(plan, "parameters").as_array()) {
    if (at(param, "name").as_string() == name) return param;
  }
  ADD_FAILURE() << name << " is absent";
  static const Json none;
  return none;
}

TEST(InspectWeights, SayFormatGroupAndBytesOfEachParameter) {
  const Json plan = planned_json(options_of("llama-3.2-1b", {.tp_size = 2, .pp_size = 2}, gptq(128)));
  const std::string layer = "model.layers.0.";
  const Json& codes = parameter(plan, layer + "self_attn.qkv_proj.qweight");
  EXPECT_EQ(at(codes, "format").as_string(), "gptq 4 bit, groups of 128");
  EXPECT_EQ(at(codes, "group").as_string(), "attn_tp of 2");
  EXPECT_EQ(number(codes, "bytes"), 1536 * 2048 / 2);
  EXPECT_EQ(at(parameter(plan, layer + "mlp.down_proj.qweight"), "group").as_string(), "tp of 2");
  const Json& norm = parameter(plan, layer + "input_layernorm.weight");
  EXPECT_EQ(at(norm, "format").as_string(), "f32 vector");
  EXPECT_TRUE(at(norm, "group").is_null());
  EXPECT_EQ(at(parameter(plan, "model.embed_tokens.weight"), "format").as_string(), "bf16");
  const std::string text = weights_text(plan);
  EXPECT_THAT(text, HasSubstr("\nstage 1, layers 8-15: weights "));
  EXPECT_THAT(text, HasSubstr("\n  model.layers.0.self_attn.qkv_proj.qweight  gptq 4 bit, groups of 128  attn_tp of 2  1572864 bytes"
                              "  <- model.layers.0.self_attn.q_proj.qweight, model.layers.0.self_attn.k_proj.qweight, "
                              "model.layers.0.self_attn.v_proj.qweight\n"));
  EXPECT_THAT(text, HasSubstr("\n  model.norm.weight  f32 vector  not cut  8192 bytes  <- model.norm.weight\n"));
}

TEST(InspectWeights, BytesAreThoseOfEachRankWhereGroupsReachOverTheirEdges) {
  const Json plan = planned_json(options_of("llama-3.2-1b", {.tp_size = 4}, gptq(1500)));
  const Json& place = at(parameter(plan, "model.layers.0.mlp.down_proj.scales"), "places").as_array().front();
  ASSERT_NE(place.find("rank_bytes"), nullptr);
  EXPECT_THAT(weights_text(plan),
              testing::ContainsRegex("model.layers.0.mlp.down_proj.scales  [a-z0-9]* scales  tp of 4  [0-9]* to [0-9]* bytes"));
  std::vector<int64_t> sums(4);
  for (const Json& param : at(plan, "parameters").as_array()) {
    const Json& held = at(param, "places").as_array().front();
    for (size_t rank = 0; rank < sums.size(); ++rank) {
      const Json* all = held.find("rank_bytes");
      const int64_t bytes = all == nullptr ? number(held, "bytes") : all->as_array()[rank].as_integer();
      sums[rank] += (bytes + 63) / 64 * 64;
    }
  }
  for (size_t rank = 0; rank < sums.size(); ++rank) {
    EXPECT_EQ(sums[rank], number(at(at(plan, "rank_table").as_array()[rank], "memory"), "weights")) << rank;
  }
}

TEST(InspectWeights, FusedLayersOfTwoFormatsAreAllNamed) {
  const PlanOptions options =
      options_of("llama-3.2-1b", {}, R"({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128,
      "modules_to_not_convert": ["layers.3.self_attn.k_proj", "layers.5.mlp.up_proj"]}})");
  const auto source = audit_model_source(options, false);
  ASSERT_TRUE(source.ok()) << source.error().message;
  const Json plan = refused_json("toy", **source);
  const Json::Array& mixed = at(at(plan, "audit"), "mixed").as_array();
  ASSERT_EQ(mixed.size(), 2U);
  EXPECT_THAT(mixed[0].as_string(), HasSubstr("model.layers.3.self_attn.qkv_proj"));
  EXPECT_THAT(mixed[1].as_string(), HasSubstr("model.layers.5.mlp.gate_up_proj"));
  EXPECT_THAT(weights_text(plan), testing::AllOf(HasSubstr("the checkpoint is refused"), HasSubstr("\nmixed: 2\n")));
  EXPECT_THAT(read_model_source(options, false).error().message, HasSubstr("mixed 2 ("));
}

TEST(WorkMemory, CountsTheScratchOfQuantisedLayersAndWhatGoesToOtherRanks) {
  const auto plain = planned(options_of("llama-3.2-1b", {.pp_size = 2}));
  const auto coded = planned(options_of("llama-3.2-1b", {.pp_size = 2}, gptq(128)));
  ASSERT_TRUE(plain.ok() && coded.ok());
  EXPECT_EQ(plain->memory[0].scratch_bytes, 0U);
  EXPECT_EQ(coded->memory[0].scratch_bytes, coded->ranks[0].format->scratch_bytes());
  EXPECT_GT(coded->memory[0].scratch_bytes, 512U * 8192 * sizeof(float));  // the inputs of down_proj
  // Two messages a plan, two plans, 512 rows of 2048; the last stage hands nothing over.
  EXPECT_EQ(plain->memory[0].exchange_bytes, 2U * 2 * 512 * 2048 * sizeof(float));
  EXPECT_EQ(plain->memory[1].exchange_bytes, 0U);
  for (const MemoryPlan& memory : coded->memory) {
    EXPECT_EQ(memory.arena_bytes(), memory.step_bytes + 2 * memory.stage_bytes + memory.scratch_bytes + memory.exchange_bytes);
  }
  MemoryRequest request = plan_test::memory_request();
  request.processes = true;
  const auto processes = planned(options_of("llama-3.2-1b", {.tp_size = 2}), request);
  const auto threads = planned(options_of("llama-3.2-1b", {.tp_size = 2}));
  ASSERT_TRUE(processes.ok() && threads.ok());
  EXPECT_EQ(threads->memory[0].exchange_bytes, 0U);
  EXPECT_GT(processes->memory[0].exchange_bytes, 3U * 512 * 2048 * sizeof(float));
}

}  // namespace
}  // namespace lamina
