// Architecture names, what a class is built from, and the binding of its stages.

#include "models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weights/loader.h"

namespace lamina {
namespace {

using testing::HasSubstr;
using testing::Not;

std::unique_ptr<CausalLM> create_nothing(const ModelBuild&) { return nullptr; }

constexpr ModelEntry kExternal[] = {{"ShopForCausalLM", create_nothing}, {"Qwen2ForCausalLM", create_nothing}};

ModelConfig config_of(const std::string& name, const std::string& overrides = "") {
  Result<ModelConfig> config = load_model_config(LAMINA_SOURCE_DIR "/tests/configs/" + name, overrides);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return *config;
}

/// A model of shells; groups, format and config live as long as it does.
struct Shells {
  Shells(ModelConfig c, ParallelGroups g = ParallelGroups::single()) : config(std::move(c)), groups(std::move(g)) {
    const ModelRegistry registry = ModelRegistry::create({}, "");
    Result<BuiltModel> result =
        build_model(**registry.find(config.architectures), config, {}, groups, *format, {0, config.num_hidden_layers});
    EXPECT_TRUE(result.ok()) << result.error().message;
    built = std::move(*result);
  }
  size_t bytes() const { return plan_dummy(*built.params, DType::kBF16)->bytes; }

  ModelConfig config;
  ParallelGroups groups;
  std::unique_ptr<WeightFormat> format = make_plain_format({DType::kBF16}, kernels::table(Isa::kRef));
  BuiltModel built;
};

TEST(ModelRegistry, UnknownArchitectureIsRefusedWithTheListOfSupportedOnes) {
  const ModelRegistry registry = ModelRegistry::create({}, "");
  const auto found = registry.find({"MambaForCausalLM"});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message, HasSubstr("MambaForCausalLM"));
  for (const char* name : {"LlamaForCausalLM", "MistralForCausalLM", "Phi3ForCausalLM", "InternLM3ForCausalLM", "IQuestCoderForCausalLM",
                           "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    EXPECT_THAT(found.error().message, HasSubstr(name));
  }
}

TEST(ModelRegistry, FirstRegisteredOfSeveralArchitecturesWins) {
  const ModelRegistry registry = ModelRegistry::create({}, "");
  EXPECT_EQ((*registry.find({"MambaForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM"}))->architecture, "Qwen3ForCausalLM");
}

TEST(ModelRegistry, DisabledArchitecturesAreHidden) {
  const ModelRegistry registry = ModelRegistry::create({}, "Qwen2ForCausalLM,LlamaForCausalLM");
  const auto found = registry.find({"LlamaForCausalLM"});
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message.substr(found.error().message.find("supported: ")), Not(HasSubstr("LlamaForCausalLM")));
  EXPECT_TRUE(registry.find({"Qwen3ForCausalLM"}).ok());
}

TEST(ModelRegistry, ExternalEntriesComeFirstAndReplaceBuiltInOnes) {
  const ModelRegistry registry = ModelRegistry::create(kExternal, "");
  EXPECT_EQ(registry.architectures().front(), "ShopForCausalLM");
  EXPECT_EQ((*registry.find({"Qwen2ForCausalLM"}))->create, create_nothing);
  EXPECT_NE((*registry.find({"Qwen3ForCausalLM"}))->create, create_nothing);
}

TEST(BuildModel, TiedHeadIsTheEmbeddingItself) {
  const Shells tied(config_of("llama-3.2-1b"));
  const Shells untied(config_of("llama-3.2-1b", R"({"tie_word_embeddings": false})"));
  EXPECT_EQ(tied.built.params->find("lm_head.weight"), nullptr);
  const ModelConfig& config = tied.config;
  EXPECT_EQ(untied.bytes() - tied.bytes(), static_cast<size_t>(config.vocab_size * config.hidden_size) * 2);
}

TEST(BuildModel, AttentionIsCutOverTheGroupTheClassNames) {
  const Topology topology{.tp_size = 4, .dp_attention = 2};
  const auto query_rows = [&](const std::string& name) {
    const Shells model(config_of(name), *ParallelGroups::planned(topology, 0));
    return model.built.params->find("model.layers.0.self_attn.o_proj.weight")->local_shape()->at(1);
  };
  for (const char* name : {"llama-3.1-8b", "qwen3-8b"}) EXPECT_EQ(query_rows(name), 32 * 128 / (4 / 2)) << name;

  const Shells qwen(config_of("qwen3-8b"), *ParallelGroups::planned(topology, 0));
  const std::vector<BoundarySummary> stages = qwen.built.stack->summaries();
  EXPECT_THAT(stages[1].plan, HasSubstr("over attn_tp (2 ranks)"));
  EXPECT_THAT(stages[2].plan, HasSubstr("over tp (4 ranks)"));
}

TEST(BuildModel, LengthRuleOfTheRopeIsFoundInWhateverLayer) {
  const Shells model(config_of("llama-3.2-1b", R"({"num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"],
      "sliding_window": 64, "rope_scaling": null, "rope_parameters": {"full_attention": {"rope_type": "default"},
      "sliding_attention": {"rope_type": "dynamic", "factor": 2.0}}})"));
  EXPECT_EQ(model.built.model->rope_rule(), RopeLengthRule::kAtAdmission);
  EXPECT_EQ(model.built.model->rope_threshold(), model.config.max_position_embeddings);
}

}  // namespace
}  // namespace lamina
