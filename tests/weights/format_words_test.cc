// What formats say of themselves: the words of stores, and layers that are mixed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/quant_config.h"
#include "tests/support/quant_writer.h"
#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

using fixture::QuantRecipe;
using Kind = QuantRecipe::Kind;

/// A layer of two parts as `json` quantises it.
Result<std::unique_ptr<LinearWeights>> two_parts(const Json& json, ParamList& params) {
  const QuantConfig config = parse_quant_config(json, "config.json", "quantization_config.").value();
  const auto format =
      make_quantised_format(config, {.model_dtype = DType::kBF16, .act_quant = true, .holds = nullptr}, kernels::table(Isa::kRef));
  const ShardDim rows{ShardRule::kReplicate, 64, 1};
  return format->create_weights({"m.fused_proj", {{"a_proj", rows}, {"b_proj", rows}}, {ShardRule::kReplicate, 128, 1}}, params);
}

TEST(MixedLayers, AreAFaultOfTheListBesideWhatElseIsWrong) {
  Json json = fixture::quant_config({.kind = Kind::kGptq});
  json.set("modules_to_not_convert", Json(Json::Array{Json("a_proj")}));
  ParamList params;
  ASSERT_TRUE(two_parts(json, params).ok());
  const toy::Files files({{"m.a_proj.weight", toy::tensor("w", {64, 128})}});
  const AuditReport report = audit(files.checkpoint(), params, {});
  ASSERT_EQ(report.mixed.size(), 1U);
  EXPECT_THAT(report.mixed[0], testing::HasSubstr("m.fused_proj: a_proj is plain, b_proj is gptq 4 bit, groups of 32"));
  EXPECT_THAT(report.missing, testing::UnorderedElementsAre("m.b_proj.qweight", "m.b_proj.scales", "m.b_proj.qzeros"));
  EXPECT_TRUE(report.unexpected.empty());
  EXPECT_THAT(plan_dummy(params, DType::kBF16).error().message, testing::HasSubstr("mixed 1 ("));
}

TEST(StoreWords, SayTheFormatOfEachTensor) {
  const auto words = [](const QuantRecipe& recipe) {
    ParamList params;
    EXPECT_TRUE(two_parts(fixture::quant_config(recipe), params).ok());
    EXPECT_TRUE(plan_dummy(params, DType::kBF16).ok());
    std::vector<std::string> out;
    for (const auto& param : params.all()) out.push_back(param->store->describe());
    return out;
  };
  using testing::ElementsAre, testing::EndsWith;
  EXPECT_THAT(words({.kind = Kind::kGptq}),
              ElementsAre("gptq 4 bit, groups of 32", EndsWith(" scales"), "zero points, 8 everywhere: checked, not kept",
                          "order of the inputs: checked, not kept"));
  EXPECT_THAT(words({.kind = Kind::kFp8Static}),
              ElementsAre("fp8, one scale, inputs fp8 by a stored scale", EndsWith(" scales"), "f32 scale of the inputs"));
  EXPECT_THAT(words({.kind = Kind::kFp8Block, .group = 16}), ElementsAre("fp8, blocks of 16x16, inputs fp8", EndsWith(" scales")));
  EXPECT_EQ(words({.kind = Kind::kMxfp4})[0], "fp4, groups of 32");
}

}  // namespace
}  // namespace lamina
