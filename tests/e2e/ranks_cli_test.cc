// The commands at several ranks, as threads of one process.

#include <gmock/gmock.h>

#include "base/json.h"
#include "tests/support/program.h"

namespace lamina {
namespace {

using fixture::only_error;
using fixture::Outcome;
using fixture::run_lamina;
using testing::HasSubstr;

const std::string kDemo = LAMINA_SOURCE_DIR "/models/demo";

Json json_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  Result<Json> json = parse_json(outcome.out, "stdout");
  EXPECT_TRUE(json.ok()) << outcome.out;
  return json.ok() ? *json : Json();
}

TEST(RanksCli, VerifyReportsAgreementInJson) {
  const Json report =
      json_of(run_lamina({"verify", kDemo, "--tp", "2", "--pp", "2", "--dp-attention", "2", "--max-total-tokens", "2048", "--json"}));
  EXPECT_TRUE(report.find("ok")->as_bool());
  EXPECT_LE(report.find("max_abs_diff")->as_double(), report.find("tolerance")->as_double());
  EXPECT_EQ(report.find("prompts")->as_integer(), 5);
  EXPECT_GT(report.find("positions")->as_integer(), 250);
  EXPECT_GT(report.find("new_tokens_equal")->as_integer(), 0);
  EXPECT_TRUE(report.find("first_difference")->is_null());
  EXPECT_EQ(report.find("topology")->find("ranks")->as_integer(), 4);
}

TEST(RanksCli, VerifyTakesPrompts) {
  const Json report = json_of(run_lamina({"verify", kDemo, "--tp", "2", "--max-total-tokens", "2048", "--prompt-ids", "1,2,3",
                                          "--prompt-ids", "4,5", "--prompt", "ice", "--max-new-tokens", "2"}));
  EXPECT_EQ(report.find("prompts")->as_integer(), 3);
  EXPECT_EQ(report.find("new_tokens")->as_integer(), 6);
}

TEST(RanksCli, BenchTellsTheTopologyAndKeepsPpForThePrompt) {
  const Json report = json_of(run_lamina(
      {"bench", kDemo, "--pp-size", "2", "--pp", "32", "--tg", "8", "--batch", "4", "--rounds", "1", "--max-total-tokens", "2048"}));
  EXPECT_EQ(report.find("topology")->find("pp_size")->as_integer(), 2);
  EXPECT_EQ(report.find("pp_tokens")->as_integer(), 32);
}

TEST(RanksCli, NumaSaysWhereRanksAreBoundAndChangesNoAnswer) {
  const std::vector<std::string> command = {"logits", kDemo, "--prompt-ids", "1,2,3", "--tp", "2", "--max-total-tokens", "2048"};
  std::vector<std::string> bound = command;
  bound.push_back("--numa");
  const Outcome outcome = run_lamina(bound);
  EXPECT_EQ(outcome.out, run_lamina(command).out);
  EXPECT_THAT(outcome.err, testing::AnyOf(HasSubstr("--numa binds nothing: "), HasSubstr("--numa: rank 0 on node ")));
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST(RanksCli, WhatIsWrongIsNamedByItsFlag) {
  const struct {
    std::vector<std::string> options;
    int exit_code;
    const char* says;
  } table[] = {
      {{"--enable-two-batch-overlap"}, 2, "--enable-two-batch-overlap is not built"},
      {{"--pp-layer-partition", "3,x"}, 2, "--pp-layer-partition: 'x' is no number of layers"},
      {{"--tp", "two"}, 2, "--tp"},
      {{"--tp-size", "0"}, 2, "--tp-size 0"},
      {{"--tp", "16"}, 1, "--tp-size 16"},
      {{"--pp", "7"}, 1, "--pp-size 7"},
      {{"--pp", "2", "--pp-layer-partition", "5,2"}, 1, "--pp-layer-partition"},
  };
  for (const auto& [options, exit_code, says] : table) {
    std::vector<std::string> args = {"logits", kDemo, "--prompt-ids", "1"};
    args.insert(args.end(), options.begin(), options.end());
    EXPECT_THAT(only_error(run_lamina(args), exit_code), HasSubstr(says));
  }
}

}  // namespace
}  // namespace lamina
