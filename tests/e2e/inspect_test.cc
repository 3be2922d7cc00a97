// `lamina inspect`: published shapes without weights, and what fills each parameter of a checkpoint.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/file.h"
#include "tests/support/program.h"
#include "tests/support/toy_model.h"

namespace lamina::e2e {
namespace {

using fixture::Outcome;
using fixture::run_lamina;
using fixture::TempFolder;
using fixture::ToyModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kConfigs = LAMINA_SOURCE_DIR "/tests/configs";

/// The JSON that inspect prints; null after a failure.
Json inspected(const std::string& folder, const std::vector<std::string>& flags = {}) {
  std::vector<std::string> args = {"inspect", folder, "--json"};
  args.insert(args.end(), flags.begin(), flags.end());
  const Outcome outcome = run_lamina(args);
  EXPECT_EQ(outcome.exit_code, 0) << folder << ": " << outcome.err;
  const Result<Json> json = parse_json(outcome.out, "stdout");
  EXPECT_TRUE(json.ok()) << outcome.out.substr(0, 200);
  return json.ok() ? *json : Json();
}

const Json& at(const Json& object, std::string_view key) {
  const Json* found = object.find(key);
  EXPECT_NE(found, nullptr) << key;
  static const Json none;
  return found == nullptr ? none : *found;
}

int64_t product(const Json& shape) {
  int64_t out = 1;
  for (const Json& extent : shape.as_array()) out *= extent.as_integer();
  return out;
}

TEST(Inspect, PublishedShapesHaveTheirParameterTotals) {
  const auto table = read_file(kConfigs + "/parameters.tsv");
  ASSERT_TRUE(table.ok());
  int64_t published = 0;
  for (const std::string& line : split(*table, '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> fields = split(line, '\t');
    const Json plan = inspected(kConfigs + "/" + fields[0]);
    if (plan.is_null()) continue;
    EXPECT_EQ(at(plan, "parameter_total").as_integer(), std::stoll(fields[1])) << fields[0];
    int64_t sum = 0;
    for (const Json& parameter : at(plan, "parameters").as_array()) {
      for (const Json& shape : at(parameter, "on_disk").as_array()) sum += product(shape);
      ASSERT_FALSE(at(parameter, "sources").as_array().empty());
      EXPECT_TRUE(at(parameter, "sources").as_array()[0].is_string());  // the tensor that will be looked for
    }
    EXPECT_EQ(sum, std::stoll(fields[1])) << fields[0];
    EXPECT_GT(at(at(plan, "memory"), "weights").as_integer(), 2 * sum - 1) << fields[0];
    if (fields[0].starts_with("llama-3.1-")) published += at(plan, "parameter_total").as_integer();
  }
  EXPECT_EQ(published, 8030261248 + 70553706496 + 405853388800);
}

TEST(Inspect, TextOfEveryPublishedShapePrints) {
  const auto folders = list_folder(kConfigs);
  ASSERT_TRUE(folders.ok());
  for (const std::string& name : *folders) {
    if (!is_directory(kConfigs + "/" + name)) continue;
    const Outcome outcome = run_lamina({"inspect", kConfigs + "/" + name});
    EXPECT_EQ(outcome.exit_code, 0) << name << ": " << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("ForCausalLM"), HasSubstr("parameters: "), HasSubstr("qkv_proj"), HasSubstr("boundaries"),
                                   HasSubstr("memory: weights")))
        << name;
  }
}

TEST(Inspect, SourcesAreTheBytesOfTheFiles) {
  const TempFolder folder;
  const ToyModel model = fixture::toy_model();
  model.write(folder, 3);
  const Json plan = inspected(folder.path());
  ASSERT_FALSE(plan.is_null());
  std::map<std::string, std::string> files;
  size_t tensors = 0;
  for (const Json& parameter : at(plan, "parameters").as_array()) {
    for (const Json& source : at(parameter, "sources").as_array()) {
      const std::string file = at(source, "file").as_string();
      if (!files.contains(file)) files[file] = *read_file(folder.file(file));
      const auto begin = static_cast<size_t>(at(source, "bytes").as_array()[0].as_integer());
      const auto end = static_cast<size_t>(at(source, "bytes").as_array()[1].as_integer());
      EXPECT_EQ(files[file].substr(begin, end - begin), model.tensors.at(at(source, "tensor").as_string()).bytes);
      EXPECT_EQ(at(source, "dtype").as_string(), "F32");
      ++tensors;
    }
  }
  EXPECT_EQ(tensors, model.tensors.size());
  EXPECT_EQ(files.size(), 3U);
}

TEST(Inspect, SkippedTensorsHaveTheirReasons) {
  const TempFolder folder;
  ToyModel model = fixture::toy_model({.tied = true});
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = fixture::constant_tensor({8}, 1);
  model.tensors["lm_head.weight"] = model.tensors.at("model.embed_tokens.weight");
  model.tensors["dummy"] = fixture::constant_tensor({0}, 0);
  model.write(folder);
  std::map<std::string, std::string> reasons;
  const Json plan = inspected(folder.path());
  for (const Json& skipped : at(plan, "skipped").as_array()) {
    reasons[at(skipped, "tensor").as_string()] = at(skipped, "reason").as_string();
  }
  EXPECT_EQ(reasons.size(), 3U);
  EXPECT_THAT(reasons["model.layers.0.self_attn.rotary_emb.inv_freq"], HasSubstr("rope"));
  EXPECT_THAT(reasons["lm_head.weight"], HasSubstr("tied"));
  EXPECT_EQ(reasons["dummy"], "empty");
  const Outcome text = run_lamina({"inspect", folder.path()});
  EXPECT_THAT(text.out, AllOf(HasSubstr("head tied to model.embed_tokens"), HasSubstr("skipped tensors"), HasSubstr("inv_freq: rope"),
                              HasSubstr("F32 model.safetensors:")));
}

TEST(Inspect, GoldenCheckpointWithStoredFrequenciesSkipsThem) {
  const std::string folder = LAMINA_SOURCE_DIR "/../shared/golden/models/llama-inv-freq";
  if (!is_directory(folder)) GTEST_SKIP() << folder << " is absent";
  const Json plan = inspected(folder);
  EXPECT_FALSE(at(plan, "skipped").as_array().empty());
  for (const Json& skipped : at(plan, "skipped").as_array()) {
    EXPECT_THAT(at(skipped, "tensor").as_string(), HasSubstr("rotary_emb.inv_freq"));
    EXPECT_THAT(at(skipped, "reason").as_string(), HasSubstr("rope"));
  }
}

/// Bytes of a file that a rank reads of one source: a run of every stride.
struct Runs {
  int64_t begin, end, run, stride;
};

/// Marks the bytes that the ranks of a place read, in the files' own numbers.
void mark(const Json& plan, const Json& parameter, const Json& place, std::map<std::string, std::set<int64_t>>& read) {
  const Json::Array& table = at(plan, "slices").as_array()[static_cast<size_t>(at(place, "slices").as_integer())].as_array();
  for (size_t rank = 0; rank < table.size(); ++rank) {
    const Json::Array& ranges = at(place, "file_ranges").as_array()[rank].as_array();
    ASSERT_EQ(ranges.size(), table[rank].as_array().size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      const Json& source = at(parameter, "sources").as_array()[static_cast<size_t>(at(table[rank].as_array()[i], "source").as_integer())];
      const int64_t begin = ranges[i].as_array()[0].as_integer(), end = ranges[i].as_array()[1].as_integer();
      const bool strided = place.find("run_bytes") != nullptr;
      const Runs runs{begin, end, strided ? at(place, "run_bytes").as_integer() : end - begin,
                      strided ? at(place, "stride_bytes").as_integer() : end - begin};
      for (int64_t run = runs.begin; run < runs.end; run += runs.stride) {
        for (int64_t byte = run; byte < run + runs.run; ++byte) read[at(source, "file").as_string()].insert(byte);
      }
    }
  }
}

TEST(Inspect, RanksReadEveryByteOfTheFilesBetweenThem) {
  const TempFolder folder;
  const ToyModel model = fixture::toy_model({.qkv_bias = true, .o_bias = true});
  model.write(folder, 2);
  size_t elements = 0;
  for (const auto& [name, tensor] : model.tensors) elements += tensor.bytes.size();
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--tp", "4"}, {"--tp", "2", "--pp", "2"}, {"--tp", "4", "--dp-attention", "2"}}) {
    const Json plan = inspected(folder.path(), flags);
    ASSERT_FALSE(plan.is_null());
    std::map<std::string, std::set<int64_t>> read;
    for (const Json& parameter : at(plan, "parameters").as_array()) {
      for (const Json& place : at(parameter, "places").as_array()) mark(plan, parameter, place, read);
    }
    size_t bytes = 0;
    for (const auto& [file, marked] : read) bytes += marked.size();
    EXPECT_EQ(bytes, elements);
    EXPECT_EQ(at(at(at(plan, "accounting"), "checkpoint"), "bytes").as_integer(), static_cast<int64_t>(elements));
  }
}

TEST(Inspect, ATensorThatNothingOwnsIsRefusedOnEveryTopology) {
  const TempFolder folder;
  ToyModel model = fixture::toy_model();
  model.tensors["model.layers.1.self_attn.surprise.weight"] = fixture::constant_tensor({8}, 1);
  model.write(folder);
  for (const char* flag : {"--tp", "--pp"}) {
    EXPECT_THAT(fixture::only_error(run_lamina({"inspect", folder.path(), flag, "2"}), 1),
                AllOf(HasSubstr("unexpected 1"), HasSubstr("model.layers.1.self_attn.surprise.weight")));
  }
}

TEST(Inspect, TextShowsRanksStagesSlicesAndTheAccount) {
  const Outcome text = run_lamina({"inspect", kConfigs + "/tinyllama-1.1b", "--tp", "8", "--pp", "2", "--memory-per-rank", "4"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("16 ranks (tp 8 x pp 2)"), HasSubstr("rank 15: heads 28-31, KV heads 3 (2 replicas)"),
                              HasSubstr("stage 1: layers 11-21"), HasSubstr("hands the residual"), HasSubstr("slices of the sources"),
                              HasSubstr("accounting"), HasSubstr("largest context: 2048 tokens, with 4.00 GB for each rank")));
}

TEST(Inspect, RefusesHeadCountsByFlag) {
  EXPECT_THAT(fixture::only_error(run_lamina({"inspect", kConfigs + "/qwen2.5-7b", "--tp", "8"}), 1),
              AllOf(HasSubstr("28 heads"), HasSubstr("--tp-size 8")));
  EXPECT_THAT(fixture::only_error(run_lamina({"inspect", kConfigs + "/llama-3.2-1b", "--tp", "4", "--dp-attention", "3"}), 2),
              HasSubstr("--dp-attention 3"));
}

TEST(Inspect, APageThatCannotBeWrittenIsAnError) {
  EXPECT_THAT(fixture::only_error(run_lamina({"inspect", kConfigs + "/llama-3.2-1b", "--html", "/nowhere/page.html"}), 1),
              AllOf(HasSubstr("--html /nowhere/page.html"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace lamina::e2e
