#include "checkpoint/generation_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/config_fixture.h"
#include "tests/support/safetensors_writer.h"

namespace lamina {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GenerationConfig, AnyOfItsIdsStopsElseThoseOfTheConfig) {
  const ModelConfig config = *fixture::tiny_config(R"({"eos_token_id": 2})");
  fixture::TempFolder folder;
  EXPECT_THAT(stop_token_ids(config, *load_generation_config(folder.path())), ElementsAre(2));
  folder.write("generation_config.json", R"({"eos_token_id": [2, 5]})");
  EXPECT_THAT(stop_token_ids(config, *load_generation_config(folder.path())), ElementsAre(2, 5));
  folder.write("generation_config.json", R"({"temperature": 0.5})");
  EXPECT_THAT(stop_token_ids(config, *load_generation_config(folder.path())), ElementsAre(2));
}

TEST(GenerationConfig, SamplingDefaultsStayOptional) {
  fixture::TempFolder folder;
  folder.write("generation_config.json",
               R"({"do_sample": true, "temperature": 0.1, "top_k": 1, "top_p": null, "repetition_penalty": 1.05})");
  const auto config = load_generation_config(folder.path());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->do_sample, true);
  EXPECT_EQ(config->temperature, 0.1);
  EXPECT_EQ(config->top_k, 1);
  EXPECT_EQ(config->top_p, std::nullopt);
  EXPECT_EQ(config->min_p, std::nullopt);
  EXPECT_EQ(config->repetition_penalty, 1.05);
}

TEST(GenerationConfig, BadValuesAreNamed) {
  fixture::TempFolder folder;
  const auto message = [&](const char* text) {
    folder.write("generation_config.json", text);
    return load_generation_config(folder.path()).error().message;
  };
  EXPECT_THAT(message(R"({"temperature": -1})"), HasSubstr(folder.file("generation_config.json") + ": key \"temperature\" is -1"));
  EXPECT_THAT(message(R"({"top_p": 0})"), HasSubstr("\"top_p\" is 0, wanted more than 0 and at most 1"));
  EXPECT_THAT(message(R"({"top_k": "all"})"), HasSubstr("\"top_k\" is a string"));
  EXPECT_THAT(message("{"), HasSubstr("generation_config.json"));
}

}  // namespace
}  // namespace lamina
