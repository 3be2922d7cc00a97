#include "checkpoint/quant_block.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

using Layout = QuantScheme::Layout;

const QuantScheme kWritten[] = {
    {.layout = Layout::kInt8, .input = {.type = InputQuant::Type::kInt8}},
    {.layout = Layout::kFp8, .input = {.type = InputQuant::Type::kFp8E4m3}},
    {.layout = Layout::kFp8},
    {.layout = Layout::kPacked, .bits = 4, .scale_cols = 32, .input = {.type = InputQuant::Type::kInt8}},
    {.layout = Layout::kPacked, .bits = 4, .scale_cols = 128},
};

TEST(QuantBlock, IsReadBackAsTheSchemeItWasWrittenFor) {
  for (const QuantScheme& scheme : kWritten) {
    const Json block = compressed_tensors_block(scheme, {"lm_head", "re:.*down_proj"});
    const Result<QuantConfig> config = parse_quant_config(block, "config.json", "quantization_config.");
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->method(), "compressed-tensors");
    for (const QuantConfig::Module& module : {QuantConfig::Module{.names = {"model.layers.0.self_attn.q_proj"}},
                                              QuantConfig::Module{.names = {"model.embed_tokens"}, .embedding = true}}) {
      const QuantConfig::Decision decision = config->decide(module);
      EXPECT_EQ(decision.answer, QuantConfig::Answer::kQuantised) << module.names[0];
      ASSERT_NE(decision.scheme, nullptr);
      EXPECT_EQ(*decision.scheme, scheme) << scheme.describe();
    }
    EXPECT_EQ(config->decide({.names = {"lm_head"}, .head = true}).answer, QuantConfig::Answer::kPlain);
    EXPECT_EQ(config->decide({.names = {"model.layers.0.mlp.down_proj"}}).answer, QuantConfig::Answer::kPlain);
  }
}

}  // namespace
}  // namespace lamina
