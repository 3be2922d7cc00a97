#include "checkpoint/quant_presets.h"

#include <gmock/gmock.h>

namespace lamina {
namespace {

using testing::HasSubstr;
using Layout = QuantScheme::Layout;

TEST(QuantPresets, QuantiseEveryModuleThatIsNotIgnored) {
  const QuantConfig config = quantising_config({.scheme = "int4", .group_size = 128, .ignore = "lm_head,re:.*\\.down_proj"}).value();
  EXPECT_EQ(config.method(), "int4 g128");
  for (const QuantConfig::Module& module : {QuantConfig::Module{.names = {"model.embed_tokens"}, .embedding = true, .head = false},
                                            QuantConfig::Module{.names = {"model.layers.3.mlp.up_proj"}}}) {
    const QuantConfig::Decision decision = config.decide(module);
    ASSERT_EQ(decision.answer, QuantConfig::Answer::kQuantised);
    EXPECT_EQ(decision.scheme->scale_cols, 128);
  }
  EXPECT_EQ(config.decide({.names = {"lm_head"}, .embedding = false, .head = true}).answer, QuantConfig::Answer::kPlain);
  EXPECT_EQ(config.decide({.names = {"model.layers.3.mlp.down_proj"}}).answer, QuantConfig::Answer::kPlain);
}

TEST(QuantPresets, EachSchemeHasItsInputs) {
  const QuantScheme int8 = quantise_preset({.scheme = "int8"}).value().scheme;
  EXPECT_TRUE(int8.layout == Layout::kInt8 && int8.scale_cols == 0 && int8.input.type == InputQuant::Type::kInt8);
  const QuantScheme int4 = quantise_preset({.scheme = "int4"}).value().scheme;
  EXPECT_TRUE(int4.layout == Layout::kPacked && int4.bits == 4 && int4.symmetric && int4.scale_cols == 32);
  EXPECT_TRUE(int4.input.type == InputQuant::Type::kInt8 && int4.input.run == 0 && !int4.input.from_checkpoint);
  const QuantScheme fp8 = quantise_preset({.scheme = "fp8"}).value().scheme;
  EXPECT_TRUE(fp8.layout == Layout::kFp8 && fp8.scale_cols == 0 && fp8.input.type == InputQuant::Type::kFp8E4m3);
}

TEST(QuantPresets, WhatIsNoSchemeIsRefusedByFlag) {
  struct Case {
    QuantiseRequest request;
    const char* says;
  };
  const Case cases[] = {
      {{.scheme = "int5"}, "--quantization int5: allowed are int8, int4, fp8"},
      {{.scheme = "int8", .group_size = 32}, "--quantization-group-size 32 goes with --quantization int4: int8 has a scale a row"},
      {{.scheme = "fp8", .group_size = 128}, "--quantization-group-size 128 goes with"},
      {{.scheme = "int4", .group_size = 64}, "--quantization-group-size 64: allowed are 32 and 128"},
      {{.scheme = "int4", .group_size = -1}, "--quantization-group-size -1: allowed are 32 and 128"},
      {{.scheme = "int4", .ignore = "lm_head,,model.norm"}, "--quantization-ignore lm_head,,model.norm: holds an empty name"},
      {{.scheme = "int4", .ignore = "re:("}, "--quantization-ignore holds the regular expression \"(\""},
      {{.scheme = "q4", .scheme_flag = "--scheme"}, "--scheme q4: allowed are"},
  };
  for (const Case& c : cases) {
    const auto refused = quantising_config(c.request);
    ASSERT_FALSE(refused.ok()) << c.says;
    EXPECT_THAT(refused.error().message, HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace lamina
