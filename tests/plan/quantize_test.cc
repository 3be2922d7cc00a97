#include "plan/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "tests/support/toy_model.h"

namespace lamina {
namespace {

using fixture::TempFolder;
using fixture::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

QuantizeOptions request(const TempFolder& model, const std::string& out, const std::string& scheme = "int8") {
  QuantizeOptions options{.plan = {.model = model.path()}, .out = out};
  options.plan.quantization = scheme;
  return options;
}

Result<QuantizeReport> quantize(const QuantizeOptions& options) {
  ThreadTeam team(2, 2);
  return quantize_checkpoint(options, team, {});
}

std::string fault(const QuantizeOptions& options) {
  const Result<QuantizeReport> report = quantize(options);
  return report.ok() ? "" : report.error().message;
}

Json config_of(const std::string& folder) { return *read_json_object(folder + "/config.json"); }

std::string bytes_of(const Checkpoint& checkpoint, const std::string& tensor) {
  const std::span<const uint8_t> bytes = checkpoint.data(*checkpoint.find(tensor));
  return {bytes.begin(), bytes.end()};
}

TEST(QuantizeCheckpoint, TensorsHaveTheNamesTypesAndShapesOfTheLayout) {
  const TempFolder model, int8, fp8, int4;
  fixture::toy_model().write(model);
  ASSERT_EQ(fault(request(model, int8.path())), "");
  ASSERT_EQ(fault(request(model, fp8.path(), "fp8")), "");
  QuantizeOptions large_groups = request(model, int4.path(), "int4");
  large_groups.plan.quantization_ignore = "re:model.layers.*.(qkv|q|k|v|o|gate_up|gate|up)_proj,lm_head,model.embed_tokens";
  large_groups.plan.quantization_group_size = 128;
  ASSERT_EQ(fault(large_groups), "");
  struct Wanted {
    const TempFolder& folder;
    const char* name;
    DType dtype;
    std::vector<int64_t> shape;
  };
  const std::string module = "model.layers.1.mlp.down_proj.";  // 64 x 128
  for (const Wanted& wanted : {Wanted{int8, "weight", DType::kI8, {64, 128}}, Wanted{int8, "weight_scale", DType::kF32, {64, 1}},
                               Wanted{fp8, "weight", DType::kF8E4M3, {64, 128}}, Wanted{fp8, "weight_scale", DType::kF32, {64, 1}},
                               Wanted{int4, "weight_packed", DType::kI32, {64, 16}}, Wanted{int4, "weight_scale", DType::kBF16, {64, 1}},
                               Wanted{int4, "weight_shape", DType::kI64, {2}}}) {
    const Result<Checkpoint> written = Checkpoint::open(wanted.folder.path());
    ASSERT_TRUE(written.ok()) << written.error().message;
    const TensorInfo* const tensor = written->find(module + wanted.name);
    ASSERT_NE(tensor, nullptr) << wanted.name;
    EXPECT_EQ(tensor->dtype, wanted.dtype) << wanted.name;
    EXPECT_EQ(tensor->shape, wanted.shape) << wanted.name;
  }
}

TEST(QuantizeCheckpoint, OtherTensorsAndFilesAreCopiedAndWeightsAreNot) {
  const TempFolder model, out;
  fixture::toy_model().write(model, 3);
  for (const char* name : {"tokenizer.json", "generation_config.json", "chat_template.jinja", ".gitattributes", "pytorch_model.bin",
                           "pytorch_model.bin.index.json", "model.gguf"}) {
    model.write(name, std::string("of ") + name);
  }
  std::filesystem::create_directory(model.file("original"));
  const Result<QuantizeReport> report = quantize(request(model, out.path()));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_THAT(*list_folder(out.path()),
              ElementsAre("chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json"));
  EXPECT_EQ(*read_file(out.file("tokenizer.json")), "of tokenizer.json");
  EXPECT_THAT(report->left_out, ElementsAre("original/"));
  const Checkpoint before = *Checkpoint::open(model.path()), after = *Checkpoint::open(out.path());
  EXPECT_EQ(bytes_of(after, "model.norm.weight"), bytes_of(before, "model.norm.weight"));
  EXPECT_EQ(report->bytes_before, before.total_bytes());
  EXPECT_EQ(report->bytes_after, after.total_bytes());
  EXPECT_EQ(static_cast<size_t>(report->quantised + report->copied), before.tensors().size());
}

TEST(QuantizeCheckpoint, ConfigKeepsItsKeysAndSaysTheTypeThatScalesWouldHide) {
  const TempFolder model, out;
  ToyModel toy = fixture::toy_model();
  toy.drop("torch_dtype");
  toy.drop("dtype");
  toy.config.set("of_my_own", 1e-5);
  toy.write(model);
  QuantizeOptions options = request(model, out.path());
  options.plan.quantization_ignore = "lm_head,re:.*down_proj";
  ASSERT_EQ(fault(options), "");
  const Json config = config_of(out.path());
  EXPECT_EQ(config.find("of_my_own")->as_double(), 1e-5);
  EXPECT_EQ(config.find("torch_dtype")->as_string(), "float32");
  EXPECT_EQ(config.find("quantization_config")->find("ignore")->dump(),
            R"(["lm_head","model.layers.0.mlp.down_proj","model.layers.1.mlp.down_proj"])");
  EXPECT_EQ(Checkpoint::open(out.path())->find("lm_head.weight")->dtype, DType::kF32);
}

TEST(QuantizeCheckpoint, ANameThatAScaleNeedsIsRefused) {
  const TempFolder model, out;
  ToyModel toy = fixture::toy_model();
  toy.tensors["model.layers.0.mlp.down_proj.weight_scale"] = {"F32", {0}, ""};
  toy.write(model);
  EXPECT_THAT(fault(request(model, out.path())), HasSubstr("down_proj.weight_scale: its name is needed"));
}

/// The toy as the language model of a wrapper with a vision tower.
ToyModel wrapped_model() {
  ToyModel toy = fixture::toy_model();
  fixture::Tensors tensors;
  for (auto& [name, tensor] : toy.tensors) tensors.emplace("language_model." + name, std::move(tensor));
  tensors.emplace("vision_tower.fc1.weight", fixture::random_tensor("fc1", {8, 8}, 1));
  tensors.emplace("vision_tower.norm.weight", fixture::random_tensor("norm", {8}, 1));
  Json config;
  config.set("architectures", Json::Array{"LlavaForConditionalGeneration"});
  config.set("model_type", "llava");
  config.set("text_config", std::move(toy.config));
  return {std::move(config), std::move(tensors)};
}

TEST(QuantizeCheckpoint, MatricesThatAreNotTheModelsStayPlainAndAreNamedSo) {
  const TempFolder model, out;
  wrapped_model().write(model);
  ASSERT_EQ(fault(request(model, out.path())), "");
  const Checkpoint written = *Checkpoint::open(out.path());
  EXPECT_EQ(written.find("vision_tower.fc1.weight")->dtype, DType::kF32);
  EXPECT_EQ(written.find("language_model.model.layers.0.self_attn.q_proj.weight")->dtype, DType::kI8);
  EXPECT_EQ(config_of(out.path()).find("quantization_config")->find("ignore")->dump(), R"(["vision_tower.fc1"])");
  PlanOptions loaded;
  loaded.model = out.path();
  EXPECT_TRUE(make_model_plan(loaded, true).ok());
}

TEST(QuantizeCheckpoint, OutputNeedsANewOrEmptyFolder) {
  const TempFolder model, out;
  fixture::toy_model().write(model);
  EXPECT_EQ(fault(request(model, model.path())), model.path() + " is the checkpoint itself: the output needs a folder of its own");
  out.write("notes.txt", "mine");
  EXPECT_EQ(fault(request(model, out.path())), out.path() + " is not empty (notes.txt): the output needs a folder of its own");
  EXPECT_THAT(fault(request(model, out.file("notes.txt"))), StartsWith("cannot create folder " + out.file("notes.txt")));
  EXPECT_THAT(fault(request(model, out.file("no/such"))), StartsWith("cannot create folder " + out.file("no/such")));
  EXPECT_EQ(fault(request(model, out.file("new"))), "");
  EXPECT_THAT(*list_folder(out.path()), ElementsAre("new", "notes.txt"));
}

TEST(QuantizeCheckpoint, QuantisedCheckpointsAndThoseOfWhichNothingIsLeftAreRefused) {
  const TempFolder model, out;
  fixture::toy_model().write(model);
  QuantizeOptions all = request(model, out.path());
  all.plan.quantization_ignore = "re:.*";
  EXPECT_EQ(fault(all), model.path() + ": every layer is ignored, so that nothing is left to quantise");
  ASSERT_EQ(fault(request(model, out.file("once"))), "");
  QuantizeOptions again = request(model, out.file("twice"));
  again.plan.model = out.file("once");
  EXPECT_EQ(fault(again),
            out.file("once/config.json") + ": the checkpoint is quantised already (compressed-tensors); a plain one is needed");
  EXPECT_FALSE(is_directory(out.file("twice")));
}

TEST(QuantizeCheckpoint, WeightsThatAreNotFiniteAreNamedAndNothingIsLeft) {
  const TempFolder model, out;
  ToyModel toy = fixture::toy_model();
  const float nan = NAN;
  std::string& bytes = toy.tensors.at("model.layers.1.self_attn.v_proj.weight").bytes;
  std::memcpy(bytes.data() + 3 * 64 * sizeof(float), &nan, sizeof nan);
  toy.write(model);
  EXPECT_EQ(fault(request(model, out.file("new"))), "model.layers.1.self_attn.v_proj.weight: row 3 holds NaN or an infinity");
  EXPECT_TRUE(list_folder(out.path())->empty());
}

TEST(QuantizeCheckpoint, DiskThatIsFullIsAnErrorAndNothingIsLeft) {
  const TempFolder model, out;
  fixture::toy_model().write(model);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = fault(request(model, out.file("new")));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write " + out.file("new/model.safetensors") + ": File too large");
  EXPECT_TRUE(list_folder(out.path())->empty());
}

}  // namespace
}  // namespace lamina
