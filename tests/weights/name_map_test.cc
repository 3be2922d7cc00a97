#include "weights/name_map.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

bool owns_nothing(const std::string&) { return false; }

TEST(NameMap, RenamesWholeComponentsOnly) {
  const NameMap map({{"v_proj", "qkv_proj", false}, {"up_proj", "gate_up_proj", false}}, {});
  EXPECT_EQ(map.rename("model.layers.0.self_attn.v_proj.weight"), "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(map.rename("model.layers.0.self_attn.qkv_proj.weight"), "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(map.rename("model.layers.0.mlp.gate_up_proj.weight"), "model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(map.rename("v_proj_extra.weight"), "v_proj_extra.weight");
}

TEST(NameMap, LongestRuleWinsWhateverTheOrder) {
  for (const bool reversed : {false, true}) {
    std::vector<RenameRule> rules = {{"language_model", "lm"}, {"language_model.model", "model"}};
    if (reversed) std::swap(rules[0], rules[1]);
    const NameMap map(rules, {});
    EXPECT_EQ(map.rename("language_model.model.norm.weight"), "model.norm.weight");
    EXPECT_EQ(map.rename("language_model.head.weight"), "lm.head.weight");
  }
}

TEST(NameMap, AnchoredRulesMatchAtTheStartOnly) {
  const NameMap map({{"model", "m"}, {"attn", "self_attn", false}}, {});
  EXPECT_EQ(map.rename("model.model.attn.weight"), "m.model.self_attn.weight");
  EXPECT_EQ(map.rename("vision.model.weight"), "vision.model.weight");
}

TEST(NameMap, OnePassAppliesSeveralRulesAndNeverRereadsItsOutput) {
  const NameMap map({{"a", "b", false}, {"b", "c", false}, {"drop", "", false}}, {});
  EXPECT_EQ(map.rename("a.b.drop.weight"), "b.c.weight");
}

TEST(NameMap, SkipRulesMatchRunsOfComponents) {
  const NameMap map({}, {{"rotary_emb.inv_freq", "recomputed"}, {"model.layers.#2+", "extra layer"}, {"experts.#.*.scale", "unused"}});
  EXPECT_EQ(map.skip_reason("model.layers.0.self_attn.rotary_emb.inv_freq", owns_nothing), "recomputed");
  EXPECT_EQ(map.skip_reason("rotary_emb.inv_freq", owns_nothing), "recomputed");
  EXPECT_EQ(map.skip_reason("my_rotary_emb.inv_freq", owns_nothing), std::nullopt);
  EXPECT_EQ(map.skip_reason("rotary_emb.inv_freq_2", owns_nothing), std::nullopt);
  EXPECT_EQ(map.skip_reason("experts.7.gate.scale", owns_nothing), "unused");
  EXPECT_EQ(map.skip_reason("experts.x.gate.scale", owns_nothing), std::nullopt);
  EXPECT_EQ(map.skip_reason("experts.7.scale", owns_nothing), std::nullopt);
}

TEST(NameMap, NumberedSkipRulesCompareAsNumbers) {
  const NameMap map({}, {{"model.layers.#2+", "extra layer"}});
  for (const char* name : {"model.layers.2.mlp.weight", "model.layers.10.mlp.weight", "language_model.model.layers.2.norm.weight"}) {
    EXPECT_EQ(map.skip_reason(name, owns_nothing), "extra layer") << name;
  }
  for (const char* name : {"model.layers.1.mlp.weight", "model.layers.-2.mlp.weight", "model.layers.2x.mlp.weight",
                           "model.layers.99999999999999999999.w", "model.layers..w", "model.layers"}) {
    EXPECT_EQ(map.skip_reason(name, owns_nothing), std::nullopt) << name;
  }
}

TEST(NameMap, SkipRulesAlsoSeeTheRenamedName) {
  const NameMap map({{"transformer.h", "model.layers"}}, {{"model.layers.#2+", "extra layer"}});
  EXPECT_EQ(map.skip_reason("transformer.h.2.attn.weight", owns_nothing), "extra layer");
  EXPECT_EQ(map.skip_reason("transformer.h.1.attn.weight", owns_nothing), std::nullopt);
}

TEST(NameMap, SkipRulesMayAskForAParameterInstead) {
  const NameMap map({{"language_model", ""}}, {{"lm_head", "tied", "model.embed_tokens"}});
  const auto owned = [](const std::string& name) { return name == "model.embed_tokens.weight"; };
  EXPECT_EQ(map.skip_reason("lm_head.weight", owned), "tied");
  EXPECT_EQ(map.skip_reason("language_model.lm_head.weight", owned), "tied");
  EXPECT_EQ(map.skip_reason("lm_head.qweight", owned), std::nullopt);
}

TEST(NameMapDeathTest, UnsoundRulesAreOurBug) {
  EXPECT_DEATH(NameMap({}, {{"layers.#2", "no plus"}}), "unsound");
  EXPECT_DEATH(NameMap({{"", "x"}}, {}), "at least one component");
}

}  // namespace
}  // namespace lamina
