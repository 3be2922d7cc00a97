#include "checkpoint/kv_scales_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/safetensors_writer.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

Result<std::vector<float>> read(std::string_view text, const KvScalesWanted& wanted) {
  const fixture::TempFolder folder;
  folder.write("scales.json", text);
  return read_kv_scales_file(folder.file("scales.json"), wanted);
}

std::string file(std::string_view ranks, std::string_view dtype = "float8_e4m3fn", std::string_view type = "llama") {
  return cat(R"({"model_type": ")", type, R"(", "kv_cache": {"dtype": ")", dtype, R"(", "scaling_factor": )", ranks, "}}");
}

TEST(KvScalesFile, GivesTheScalesOfOneRank) {
  const std::string two = file(R"({"0": {"0": 0.5, "1": 0.25}, "1": {"1": 2, "0": 1}})");
  EXPECT_EQ(*read(two, {.model_type = "llama", .layers = 2, .tp_size = 2, .tp_rank = 0}), (std::vector<float>{0.5F, 0.25F}));
  EXPECT_EQ(*read(two, {.model_type = "llama", .layers = 2, .tp_size = 2, .tp_rank = 1}), (std::vector<float>{1.0F, 2.0F}));
}

TEST(KvScalesFile, AFileThatDoesNotFitIsAnError) {
  const struct {
    std::string text;
    const char* wanted;
  } rows[] = {
      {file(R"({"0": {"0": 1, "1": 1}})", "float8_e5m2"), "\"kv_cache.dtype\" is \"float8_e5m2\""},
      {file(R"({"0": {"0": 1, "1": 1}})", "float8_e4m3fn", "qwen2"), "\"model_type\" is \"qwen2\", the model is \"llama\""},
      {file(R"({"0": {"0": 1, "1": 1}, "1": {"0": 1, "1": 1}})"), "scales of 2 ranks (--tp-size), wanted 1"},
      {file(R"({"0": {"0": 1}})"), "scales of 1 layers, wanted 2"},
      {file(R"({"0": {"0": 1, "2": 1}})"), "\"kv_cache.scaling_factor.0.1\" is missing"},
      {file(R"({"1": {"0": 1, "1": 1}})"), "\"kv_cache.scaling_factor.0\" is missing"},
      {file(R"({"0": {"0": 1, "1": 0}})"), "scaling_factor.0.1\" is 0"},
      {file(R"({"0": {"0": 1, "1": -2}})"), "is -2"},
      {file(R"({"0": {"0": 1, "1": 1e300}})"), "finite"},
      {file(R"({"0": {"0": 1, "1": "1"}})"), "wanted a finite number"},
      {file(R"([1, 2])"), "wanted an object"},
      {R"({"model_type": "llama"})", "\"kv_cache\" is missing"},
      {R"([])", "wanted an object"},
  };
  for (const auto& row : rows) {
    const auto got = read(row.text, {.model_type = "llama", .layers = 2, .tp_size = 1});
    ASSERT_FALSE(got.ok()) << row.text;
    EXPECT_THAT(got.error().message, HasSubstr(row.wanted));
    EXPECT_THAT(got.error().message, HasSubstr("scales.json"));
  }
  EXPECT_FALSE(read_kv_scales_file("/nowhere/scales.json", {}).ok());
}

}  // namespace
}  // namespace lamina
