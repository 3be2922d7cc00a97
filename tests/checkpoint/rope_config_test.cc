#include "checkpoint/rope_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/config_fixture.h"

namespace lamina {
namespace {

using fixture::tiny_config;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RopeConfig rope_of(std::string_view patch) {
  const auto config = tiny_config(patch);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? config->ropes.at(0) : RopeConfig{};
}

// Factor lists for a head_dim of 16.
constexpr const char* kLongRope = R"({"rope_scaling": {"type": "longrope", "short_factor": [1,1,1,1,1,1,1,1],
  "long_factor": [1,2,3,4,5,6,7,8]}, "original_max_position_embeddings": 32})";

TEST(RopeConfig, SilentConfigsHaveTheFamilysTheta) {
  const auto config = tiny_config("{}", "rope_theta");
  EXPECT_EQ(config->ropes[0].theta, 10000.0);
  EXPECT_EQ(config->ropes[0].type, RopeType::kDefault);
  EXPECT_EQ(config->ropes[0].rotary_dim, 16);
  EXPECT_EQ(rope_of(R"({"rope_theta": 500000})").theta, 500000.0);
  EXPECT_EQ(rope_of(R"({"rope_scaling": {}})").type, RopeType::kDefault);
}

TEST(RopeConfig, OldAndNewSpellingsGiveTheSame) {
  const RopeConfig v4 = rope_of(R"({"rope_theta": 500000.0, "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1,
    "high_freq_factor": 4, "original_max_position_embeddings": 64}})");
  const RopeConfig v5 = rope_of(R"({"rope_theta": null, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8,
    "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}})");
  EXPECT_EQ(v4, v5);
  EXPECT_EQ(v4.type, RopeType::kLlama3);
}

TEST(RopeConfig, RopeParametersWin) {
  const RopeConfig rope = rope_of(R"({"rope_parameters": {"rope_theta": 5e5}, "rope_scaling": {"type": "linear", "factor": 2}})");
  EXPECT_EQ(rope.type, RopeType::kDefault);
  EXPECT_EQ(rope.theta, 5e5);
}

TEST(RopeConfig, NestedParametersFollowTheLayerTypes) {
  const auto config = tiny_config(R"({"layer_types": ["sliding_attention", "full_attention", "full_attention", "sliding_attention"],
    "sliding_window": 8, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->ropes.size(), 2U);
  EXPECT_EQ(config->rope(LayerId(0)).theta, 1e4);
  EXPECT_EQ(config->rope(LayerId(1)).theta, 1e6);
  EXPECT_EQ(config->rope(LayerId(1)).factor, 8.0);
  EXPECT_EQ(config->rope(LayerId(3)), config->rope(LayerId(0)));
  EXPECT_THAT(config->layer_windows, ElementsAre(8, 0, 0, 8));
  const auto lacking = tiny_config(R"({"rope_parameters": {"sliding_attention": {"rope_theta": 1e4}}})");
  EXPECT_THAT(lacking.error().message, HasSubstr("no entry for the layer type \"full_attention\""));
}

TEST(RopeConfig, SuIsLongrope) {
  std::string old = kLongRope;
  old.replace(old.find("longrope"), 8, "su");
  EXPECT_EQ(rope_of(old), rope_of(kLongRope));
  const RopeConfig rope = rope_of(kLongRope);
  EXPECT_EQ(rope.type, RopeType::kLongRope);
  EXPECT_EQ(rope.factor, 4.0);  // 128 / 32
  EXPECT_THAT(rope.long_factor, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(RopeConfig, PartialFactorIsUsedUpOnce) {
  const auto config = tiny_config(R"({"partial_rotary_factor": 0.5})");
  for (int layer : {0, 2}) EXPECT_EQ(config->rope(LayerId(layer)).rotary_dim, 8);
  EXPECT_EQ(rope_of(R"({"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 1e4}, "partial_rotary_factor": 0.5})").rotary_dim,
            8);
}

TEST(RopeConfig, YarnDefaultsAndFactor) {
  const RopeConfig rope = rope_of(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32,
    "beta_fast": null}})");
  EXPECT_EQ(rope.factor, 4.0);
  EXPECT_EQ(rope.beta_fast, 32.0);
  EXPECT_EQ(rope.beta_slow, 1.0);
  EXPECT_TRUE(rope.truncate);
  EXPECT_FALSE(rope.attention_factor.has_value());
  EXPECT_EQ(rope_of(R"({"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 32}})").factor, 4.0);
  EXPECT_EQ(rope_of(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}})").original_max_position_embeddings, 128);
}

TEST(RopeConfig, ContextLengthDoesNotApplyAFactorTwice) {
  const auto context = [](const char* patch) { return tiny_config(patch)->context_length(); };
  EXPECT_EQ(context("{}"), 128);
  EXPECT_EQ(context(R"({"rope_scaling": {"type": "linear", "factor": 4}})"), 128);
  EXPECT_EQ(context(kLongRope), 128);
  EXPECT_EQ(context(R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 32}})"), 128);
  EXPECT_EQ(context(R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 128}})"), 512);
  EXPECT_EQ(context(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})"), 256);
  EXPECT_EQ(context(R"({"rope_scaling": {"type": "dynamic", "alpha": 1000}})"), 128);
}

struct BadRope {
  const char* name;
  const char* patch;
  std::vector<std::string> wanted;
};
class BadRopes : public ::testing::TestWithParam<BadRope> {};

TEST_P(BadRopes, IsRefusedByKeyAndValue) {
  const auto config = tiny_config(GetParam().patch);
  ASSERT_FALSE(config.ok());
  for (const std::string& part : GetParam().wanted) EXPECT_THAT(config.error().message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadRopes,
    ::testing::Values(
        BadRope{"Unknown",
                R"({"rope_scaling": {"rope_type": "foo"}})",
                {"\"rope_scaling.rope_type\" is \"foo\"", "default, linear, dynamic, llama3, yarn, deepseek_yarn, longrope"}},
        BadRope{"Untyped", R"({"rope_scaling": {"factor": 2}})", {"\"rope_scaling.rope_type\" is missing"}},
        BadRope{"NoObject", R"({"rope_scaling": "linear"})", {"\"rope_scaling\" is a string (\"linear\"), wanted an object"}},
        BadRope{"Theta", R"({"rope_theta": 0})", {"\"rope_theta\" is 0"}},
        BadRope{"Partial", R"({"partial_rotary_factor": 1.5})", {"\"partial_rotary_factor\" is 1.5"}},
        BadRope{"OddPartial", R"({"partial_rotary_factor": 0.2})", {"\"partial_rotary_factor\"", "gives 3"}},
        BadRope{"NoFactor", R"({"rope_scaling": {"type": "linear"}})", {"\"rope_scaling.factor\" is missing"}},
        BadRope{"SmallFactor", R"({"rope_scaling": {"type": "dynamic", "factor": 0}})", {"\"rope_scaling.factor\" is 0, allowed are 1 to"}},
        BadRope{"Llama3Original",
                R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}})",
                {"\"rope_scaling.original_max_position_embeddings\" is missing"}},
        BadRope{"Llama3Order",
                R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 5, "high_freq_factor": 4}})",
                {"low_freq_factor\" is 5", "high_freq_factor (4)"}},
        BadRope{"YarnBeta", R"({"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 2}})", {"beta_fast\" is 1"}},
        BadRope{
            "YarnAttention", R"({"rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": -1}})", {"attention_factor\" is -1"}},
        BadRope{"LongropeLength",
                R"({"original_max_position_embeddings": 32, "rope_scaling": {"type": "longrope", "short_factor": [1, 1],
                "long_factor": [1, 1]}})",
                {"\"rope_scaling.short_factor\" has 2 numbers, wanted 8"}},
        BadRope{"LongropeZero",
                R"({"original_max_position_embeddings": 32, "rope_scaling": {"type": "longrope",
                "short_factor": [1,1,1,1,1,1,1,0], "long_factor": [1,1,1,1,1,1,1,1]}})",
                {"short_factor\" holds 0"}},
        BadRope{"LongropeOriginal",
                R"({"rope_scaling": {"type": "longrope", "short_factor": [1,1,1,1,1,1,1,1],
                "long_factor": [1,1,1,1,1,1,1,1]}})",
                {"original_max_position_embeddings", "missing"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lamina
