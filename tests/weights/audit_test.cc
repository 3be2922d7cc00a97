#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/weights/toy_model.h"
#include "weights/kv_scales.h"

namespace lamina {
namespace {

using fixture::Tensors;
using testing::HasSubstr;
using toy::Files;
using toy::Model;

const std::string kAttn = "model.layers.0.self_attn.";
const std::string kMlp = "model.layers.0.mlp.";

void move_tensor(Tensors& t, const std::string& from, const std::string& to) {
  ASSERT_TRUE(t.contains(from)) << from;
  t[to] = t[from];
  t.erase(from);
}

NameMap rules() {
  return NameMap({{"language_model.model", "model"}, {"wq", "q_proj", false}},
                 {{"rotary_emb.inv_freq", "recomputed"}, {"model.layers.#1+", "beyond num_hidden_layers"}, {"down_proj", "never asked"}});
}

struct Damage {
  const char* name;
  std::function<void(Tensors&)> apply;
  std::string message;  // "": loads
};

const std::vector<Damage> kDamages = {
    {"Nothing", [](Tensors&) {}, ""},
    {"Missing", [](Tensors& t) { t.erase(kMlp + "down_proj.weight"); },
     "checkpoint does not fit the model: missing 1 (model.layers.0.mlp.down_proj.weight)"},
    {"MissingPartOfAFusedParameter", [](Tensors& t) { t.erase(kAttn + "k_proj.weight"); },
     "missing 1 (model.layers.0.self_attn.k_proj.weight)"},
    {"MissingBias", [](Tensors& t) { t.erase(kAttn + "v_proj.bias"); }, "missing 1 (model.layers.0.self_attn.v_proj.bias)"},
    {"Misspelt", [](Tensors& t) { move_tensor(t, kMlp + "up_proj.weight", kMlp + "upp_proj.weight"); },
     "missing 1 (model.layers.0.mlp.up_proj.weight); unexpected 1 (model.layers.0.mlp.upp_proj.weight)"},
    {"UnknownBias", [](Tensors& t) { t[kAttn + "o_proj.bias"] = toy::tensor("b", {24}); },
     "unexpected 1 (model.layers.0.self_attn.o_proj.bias)"},
    {"PackedVariantOfAWeight", [](Tensors& t) { move_tensor(t, kAttn + "o_proj.weight", kAttn + "o_proj.qweight"); },
     "missing 1 (model.layers.0.self_attn.o_proj.weight); unexpected 1 (model.layers.0.self_attn.o_proj.qweight)"},
    {"MisshapedMatrix", [](Tensors& t) { t[kAttn + "o_proj.weight"].shape = {32, 24}; },
     "mis-shaped 1 (model.layers.0.self_attn.o_proj.weight: file has [32, 24], the model needs [24, 32])"},
    {"MisshapedPart", [](Tensors& t) { t[kAttn + "k_proj.weight"] = toy::tensor("k", {16, 24}); },
     "mis-shaped 1 (model.layers.0.self_attn.k_proj.weight: file has [16, 24], the model needs [8, 24])"},
    {"VectorAsMatrix", [](Tensors& t) { t["model.norm.weight"].shape = {24, 1}; },
     "mis-shaped 1 (model.norm.weight: file has [24, 1], the model needs [24])"},
    {"VectorAsScalar", [](Tensors& t) { t["model.norm.weight"] = toy::tensor("n", {}); },
     "mis-shaped 1 (model.norm.weight: file has [], the model needs [24])"},
    {"EmptyWeight", [](Tensors& t) { t["model.norm.weight"] = toy::tensor("n", {0}); }, "mis-shaped 1"},
    {"FusedAndSplit", [](Tensors& t) { t[kAttn + "qkv_proj.weight"] = toy::tensor("qkv", {48, 24}); },
     "duplicate 1 (model.layers.0.self_attn.qkv_proj.weight (its place is taken by model.layers.0.self_attn.q_proj.weight))"},
    {"FusedAndOnePart",
     [](Tensors& t) {
       const fixture::Tensor v = t[kAttn + "v_proj.weight"];
       toy::fuse_all(t);
       t[kAttn + "v_proj.weight"] = v;
     },
     "duplicate 1 (model.layers.0.self_attn.v_proj.weight (its place is taken by model.layers.0.self_attn.qkv_proj.weight))"},
    {"TwoNamesForOneSlot", [](Tensors& t) { t[kAttn + "wq.weight"] = t[kAttn + "q_proj.weight"]; },
     "duplicate 1 (model.layers.0.self_attn.wq.weight (its place is taken by model.layers.0.self_attn.q_proj.weight))"},
    {"Renamed",
     [](Tensors& t) {
       move_tensor(t, kAttn + "q_proj.weight", "language_model." + kAttn + "wq.weight");
       move_tensor(t, "model.norm.weight", "language_model.model.norm.weight");
     },
     ""},
    {"FusedOnDisk", toy::fuse_all, ""},
    {"FusedOnDiskOfTheWrongHeight",
     [](Tensors& t) {
       toy::fuse_all(t);
       t[kAttn + "qkv_proj.weight"] = toy::tensor("qkv", {47, 24});
     },
     "mis-shaped 1 (model.layers.0.self_attn.qkv_proj.weight: file has [47, 24], the model needs [48, 24])"},
    {"SkippedByRule",
     [](Tensors& t) {
       t[kAttn + "rotary_emb.inv_freq"] = toy::tensor("f", {2});
       t["model.layers.1.mlp.down_proj.weight"] = toy::tensor("d", {24, 40});
       t["model.layers.12.norm.weight"] = toy::tensor("d", {24});
     },
     ""},
    {"EmptyTensorNothingOwns", [](Tensors& t) { t["dummy"] = toy::tensor("dummy", {0}); }, ""},
    {"IntegerWeight", [](Tensors& t) { t[kAttn + "o_proj.weight"] = {"I32", {24, 32}, std::string(24 * 32 * 4, '\0')}; },
     "model.layers.0.self_attn.o_proj.weight: type I32 cannot be loaded here"},
    {"Fp8PartOfAFusedParameter", [](Tensors& t) { t[kAttn + "k_proj.weight"] = {"F8_E4M3", {8, 24}, std::string(8 * 24, '\0')}; },
     "model.layers.0.self_attn.k_proj.weight: type F8_E4M3 cannot be loaded here"},
    {"IntegerNorm", [](Tensors& t) { t["model.norm.weight"] = {"I64", {24}, std::string(24 * 8, '\0')}; },
     "model.norm.weight: type I64 cannot be loaded here"},
};

class DamagedCheckpoint : public testing::TestWithParam<Damage> {};

TEST_P(DamagedCheckpoint, IsRefusedByNameBeforeMemoryIsReserved) {
  Tensors tensors = toy::tensors();
  GetParam().apply(tensors);
  const Files files(tensors);
  Model model;
  const Result<LoadPlan> plan = plan_load(files.checkpoint(), model.params(), rules());
  const std::string message = plan.ok() ? "" : plan.error().message;
  if (GetParam().message.empty()) {
    EXPECT_EQ(message, "");
  } else {
    EXPECT_THAT(message, HasSubstr(GetParam().message));
  }
  EXPECT_EQ(model.vector("model.norm.weight").data(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Cases, DamagedCheckpoint, testing::ValuesIn(kDamages),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Audit, EveryTensorEndsInOneList) {
  Tensors tensors = toy::tensors();
  tensors["model.layers.1.mlp.down_proj.weight"] = toy::tensor("d", {24, 40});
  tensors[kAttn + "rotary_emb.inv_freq"] = toy::tensor("f", {2});
  tensors["dummy"] = toy::tensor("dummy", {0, 7});
  tensors["extra"] = toy::tensor("extra", {1});
  tensors.erase("model.norm.weight");
  const Files files(tensors);
  Model model;
  const AuditReport report = audit(files.checkpoint(), model.params(), rules());
  EXPECT_FALSE(report.clean());
  EXPECT_EQ(report.loaded_tensors, 11);
  ASSERT_EQ(report.skipped.size(), 3U);
  EXPECT_EQ(report.skipped[0].tensor, "dummy");
  EXPECT_EQ(report.skipped[0].reason, "empty");
  EXPECT_EQ(report.skipped[1].reason, "recomputed");
  EXPECT_EQ(report.skipped[2].reason, "beyond num_hidden_layers");
  EXPECT_THAT(report.unexpected, testing::ElementsAre("extra"));
  EXPECT_THAT(report.missing, testing::ElementsAre("model.norm.weight"));
}

TEST(Audit, ListsEveryKindOfFaultByName) {
  Tensors tensors = toy::tensors();
  tensors.erase("model.norm.weight");
  tensors["extra"] = toy::tensor("extra", {1});
  tensors[kMlp + "down_proj.weight"].shape = {40, 24};
  tensors[kMlp + "up_proj.weight"] = {"I8", {40, 24}, std::string(40 * 24, '\0')};
  tensors[kAttn + "wq.weight"] = tensors[kAttn + "q_proj.weight"];
  const Files files(tensors);
  Model model;
  model.params().add_fault("a fused layer");
  const AuditReport report = audit(files.checkpoint(), model.params(), rules());
  std::map<std::string, std::string> lists;
  for (const AuditReport::List& list : report.faults()) {
    ASSERT_EQ(list.tensors.size(), 1U) << list.name;
    lists[list.name] = list.tensors.front();
    EXPECT_THAT(report.fault(), HasSubstr(cat(list.name, " 1 (", list.tensors.front())));
  }
  EXPECT_EQ(lists["missing"], "model.norm.weight");
  EXPECT_EQ(lists["unexpected"], "extra");
  EXPECT_THAT(lists["mis-shaped"], HasSubstr(kMlp + "down_proj.weight: file has [40, 24]"));
  EXPECT_THAT(lists["mistyped"], HasSubstr(kMlp + "up_proj.weight: type I8"));
  EXPECT_THAT(lists["duplicate"], HasSubstr(kAttn + "wq.weight"));
  EXPECT_EQ(lists["mixed"], "a fused layer");
}

TEST(Audit, OptionalParametersOfASetAreAllThereOrAllAbsent) {
  const auto fault_of = [](const std::vector<std::string>& scales) {
    Tensors tensors = toy::tensors();
    for (const std::string& scale : scales) tensors[scale] = toy::tensor("s", {1});
    const Files files(tensors);
    Model model;
    declare_kv_scales({0, 2}, false, model.params());
    const AuditReport report = audit(files.checkpoint(), model.params(), rules());
    return report.clean() ? "" : report.fault();
  };
  const std::string other = "model.layers.1.self_attn.";
  EXPECT_EQ(fault_of({}), "");
  EXPECT_EQ(fault_of({kAttn + "k_scale", other + "kv_scale"}), "");
  EXPECT_THAT(fault_of({other + "k_scale"}), HasSubstr("missing 1 (" + kAttn + "k_scale)"));
  EXPECT_THAT(fault_of({kAttn + "k_scale", kAttn + "v_scale", other + "k_scale"}), HasSubstr("missing 1 (" + other + "v_scale)"));
}

TEST(Audit, AnOwnedNameIsLoadedWhateverTheRulesSay) {
  const NameMap names({{"model.norm", "model.final_norm"}}, {{"down_proj", "never asked"}, {"model", "never asked"}});
  const Files files(toy::tensors());
  Model model;
  const AuditReport report = audit(files.checkpoint(), model.params(), names);
  EXPECT_TRUE(report.clean()) << report.fault();
  EXPECT_TRUE(report.skipped.empty());
}

TEST(Audit, LongListsAreCutWithACount) {
  Tensors tensors = toy::tensors();
  for (int i = 0; i < 11; ++i) tensors[cat("stray.", i)] = toy::tensor("s", {1});
  const Files files(tensors);
  Model model;
  const std::string fault = audit(files.checkpoint(), model.params(), {}).fault();
  EXPECT_THAT(fault, HasSubstr("unexpected 11 (stray.0, stray.1, stray.10, "));
  EXPECT_THAT(fault, HasSubstr(", and 3 more)"));
  EXPECT_EQ(fault.find("stray.9"), std::string::npos);
}

}  // namespace
}  // namespace lamina
