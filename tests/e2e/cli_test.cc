// The command line: exit code 2 with one error line for what it alone gets wrong, 1 for what only the model can tell.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"
#include "tests/support/toy_model.h"

namespace lamina::e2e {
namespace {

using fixture::run_lamina;
using ::testing::HasSubstr;

struct Call {
  const char* name;
  std::vector<std::string> args;  // "MODEL" stands for a sound checkpoint of 259 ids and 512 positions without a tokenizer
  int exit_code;
  std::vector<std::string> wanted;
  const char* isa = "";  // LAMINA_ISA
};

void PrintTo(const Call& call, std::ostream* out) { *out << call.name; }

class BadCalls : public ::testing::TestWithParam<Call> {};

TEST_P(BadCalls, EndWithOneErrorLine) {
  const fixture::TempFolder folder;
  fixture::toy_model().write(folder);
  std::vector<std::string> args = GetParam().args;
  for (std::string& arg : args) {
    if (arg == "MODEL") arg = folder.path();
  }
  const std::string error = fixture::only_error(run_lamina(args, {{"LAMINA_ISA", GetParam().isa}}), GetParam().exit_code);
  for (const std::string& part : GetParam().wanted) EXPECT_THAT(error, HasSubstr(part));
}

/// generate MODEL --prompt-ids 1,2 and more.
std::vector<std::string> generate(std::vector<std::string> more) {
  std::vector<std::string> args = {"generate", "MODEL", "--prompt-ids", "1,2"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

/// 1,1,...,1
std::string ones(int count) {
  std::string out = "1";
  for (int i = 1; i < count; ++i) out += ",1";
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Usage, BadCalls,
    ::testing::Values(
        Call{"NoCommand", {}, 2, {"a command is needed", "generate, logits"}},
        Call{"UnknownCommand", {"genrate", "MODEL"}, 2, {"'genrate'", "generate, logits"}},
        Call{"UnknownOption", generate({"--topp", "1"}), 2, {"--topp"}}, Call{"UnknownOptionBeforeACommand", {"--tp", "2"}, 2, {"--tp"}},
        Call{"NoModel", {"logits", "--prompt-ids", "1"}, 2, {"MODEL"}}, Call{"TwoModels", generate({"another"}), 2, {"another"}},
        Call{"NoPrompt", {"logits", "MODEL"}, 2, {"--prompt or --prompt-ids"}},
        Call{"TwoPrompts", generate({"--prompt", "x"}), 2, {"--prompt", "--prompt-ids"}},
        Call{"OptionWithoutItsValue", generate({"--threads"}), 2, {"--threads"}},
        Call{"IdsThatAreNoNumbers", {"logits", "MODEL", "--prompt-ids", "1,x"}, 2, {"--prompt-ids", "'x'"}},
        Call{"IdsWithAHole", {"embed", "MODEL", "--prompt-ids", "1,,2"}, 2, {"--prompt-ids", "''"}},
        Call{"IdsBeyondIntegers", {"logits", "MODEL", "--prompt-ids", "99999999999"}, 2, {"--prompt-ids", "'99999999999'"}},
        Call{"NegativeNewTokens", generate({"--max-new-tokens", "-1"}), 2, {"max_new_tokens is -1", "at least 0"}},
        Call{"NewTokensBeyondIntegers", generate({"--max-new-tokens", "3000000000"}), 2, {"--max-new-tokens", "3000000000"}},
        Call{"NegativeTemperature", generate({"--temperature", "-1"}), 2, {"temperature is -1", "[0, 100]"}},
        Call{"TemperatureNaN", generate({"--temperature", "nan"}), 2, {"temperature is nan"}},
        Call{"TemperatureIsAWord", generate({"--temperature", "hot"}), 2, {"--temperature", "hot"}},
        Call{"TopPZero", generate({"--top-p", "0"}), 2, {"top_p is 0", "(0, 1]"}},
        Call{"TopKZero", generate({"--top-k", "0"}), 2, {"top_k is 0"}},
        Call{"PenaltyZero", generate({"--repetition-penalty", "0"}), 2, {"repetition_penalty is 0", "(0, 2]"}},
        Call{"NegativeStopId", generate({"--stop-token-ids", "5,-3"}), 2, {"stop_token_ids holds -3"}},
        Call{"NegativeSeed", generate({"--seed", "-1"}), 2, {"--seed", "-1"}},
        Call{"PageSizeZero", generate({"--page-size", "0"}), 2, {"--page-size 0", "1 to 4096"}},
        Call{"TooManyThreads", generate({"--threads", "5000"}), 2, {"--threads 5000", "0 to 1024"}},
        Call{"NegativeThreads", generate({"--threads", "-1"}), 2, {"--threads -1"}},
        Call{"NoRequests", generate({"--max-running-requests", "0"}), 2, {"--max-running-requests 0"}},
        Call{"ChunkZero", generate({"--chunked-prefill-size", "0"}), 2, {"--chunked-prefill-size 0"}},
        Call{"MemoryFractionTwo", generate({"--mem-fraction-static", "2"}), 2, {"--mem-fraction-static 2"}},
        Call{"MemoryFractionNaN", generate({"--mem-fraction-static", "nan"}), 2, {"--mem-fraction-static nan"}},
        Call{"UnknownDtype", generate({"--dtype", "int3"}), 2, {"--dtype int3", "bfloat16"}},
        Call{"UnknownLoadFormat", generate({"--load-format", "gguf"}), 2, {"--load-format gguf", "dummy"}},
        Call{"InspectChecksTheSameOptions", {"inspect", "MODEL", "--page-size", "0"}, 2, {"--page-size 0"}},
        Call{"BenchPromptZero", {"bench", "MODEL", "--pp", "0"}, 2, {"--pp"}},
        Call{"TokenizeNothing", {"tokenize", "MODEL"}, 2, {"--text"}},
        Call{"TokenizeBadIds", {"tokenize", "MODEL", "--decode", "--ids", "1,x"}, 2, {"--ids", "'x'"}},
        Call{"QuantizeWithoutOut", {"quantize", "MODEL", "--scheme", "int8"}, 2, {"OUT"}},
        Call{"QuantizeWithoutScheme", {"quantize", "MODEL", "out"}, 2, {"--scheme"}},
        Call{"UnknownScheme", {"quantize", "MODEL", "out", "--scheme", "int3"}, 2, {"--scheme int3", "int8, int4, fp8"}},
        Call{"GroupsOfAnotherScheme", {"quantize", "MODEL", "out", "--scheme", "fp8", "--group-size", "32"}, 2, {"--group-size 32"}},
        Call{"UnknownGroupSize", {"quantize", "MODEL", "out", "--scheme", "int4", "--group-size", "64"}, 2, {"--group-size 64"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Model, BadCalls,
    ::testing::Values(
        Call{"IdAboveTheVocabulary", {"logits", "MODEL", "--prompt-ids", "1,259"}, 1, {"259", "[0, 259)"}},
        Call{"NegativeId", {"generate", "MODEL", "--prompt-ids", "-1"}, 1, {"-1", "[0, 259)"}},
        Call{"StopIdAboveTheVocabulary", generate({"--stop-token-ids", "259"}), 1, {"stop_token_ids holds 259", "[0, 259)"}},
        Call{"NoIds", {"generate", "MODEL", "--prompt-ids", ""}, 1, {"the prompt is empty"}},
        Call{"TextWithoutATokenizer", {"generate", "MODEL", "--prompt", "hi"}, 1, {"no tokenizer.json"}},
        Call{"PromptLongerThanTheContext", {"logits", "MODEL", "--prompt-ids", ones(513)}, 1, {"513 tokens", "512"}},
        Call{"NoRoomForOneMore", {"generate", "MODEL", "--prompt-ids", ones(512)}, 1, {"512 tokens", "one more"}},
        Call{"PromptLongerThanThePool", {"logits", "MODEL", "--max-total-tokens", "32", "--prompt-ids", ones(33)}, 1, {"33 tokens", "32"}},
        Call{"PoolSmallerThanAPage", generate({"--max-total-tokens", "8"}), 1, {"--max-total-tokens", "8"}},
        Call{"ContextBeyondTheModel", generate({"--context-length", "513"}), 1, {"--context-length 513", "512"}},
        Call{"NoSuchFolder", {"generate", "no/such/folder", "--prompt-ids", "1"}, 1, {"no/such/folder", "not a folder"}},
        Call{"UnknownIsa", generate({}), 1, {"LAMINA_ISA", "sse9"}, "sse9"},
        Call{"QuantizeIntoItself", {"quantize", "MODEL", "MODEL", "--scheme", "int8"}, 1, {"is the checkpoint itself"}},
        Call{"NoTokenizerToTokenize", {"tokenize", "MODEL", "--text", "hi"}, 1, {"tokenizer.json"}}),
    [](const auto& test) { return test.param.name; });

TEST(Cli, HelpIsNoError) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--help"}, {"generate", "--help"}}) {
    const fixture::Outcome outcome = run_lamina(args);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Usage"));
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(Cli, AnAnswerThatCannotBeWrittenIsAnError) {
  const fixture::TempFolder folder;
  fixture::toy_model().write(folder);
  for (const char* command : {"logits", "generate"}) {
    const fixture::Outcome outcome = run_lamina({command, folder.path(), "--prompt-ids", "1,2"}, {}, "/dev/full");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("error: stdout: the answer could not be written"));
  }
}

TEST(Cli, QuantizeSaysWhatItWrote) {
  const fixture::TempFolder folder, out;
  fixture::toy_model().write(folder);
  const fixture::Outcome outcome = run_lamina({"quantize", folder.path(), out.path(), "--scheme", "int4", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const Result<Json> answer = parse_json(outcome.out, "stdout");
  ASSERT_TRUE(answer.ok()) << outcome.out;
  EXPECT_EQ(answer->find("scheme")->as_string(), "int4");
  EXPECT_GT(answer->find("bytes_before")->as_integer(), answer->find("bytes_after")->as_integer());
  EXPECT_THAT(outcome.err, HasSubstr(" tensors in int4, "));
  EXPECT_EQ(run_lamina({"generate", out.path(), "--prompt-ids", "1,2"}).exit_code, 0);
}

TEST(Cli, AnEmptyAnswerIsNoError) {
  const fixture::TempFolder folder;
  fixture::toy_model().write(folder);
  const fixture::Outcome outcome =
      run_lamina({"generate", folder.path(), "--prompt-ids", "1", "--max-new-tokens", "0", "--json", "--threads", "0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const Result<Json> answer = parse_json(outcome.out, "stdout");
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->find("output_ids")->as_array().empty());
  EXPECT_EQ(answer->find("finish_reason")->as_string(), "length");
}

}  // namespace
}  // namespace lamina::e2e
