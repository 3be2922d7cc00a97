// Checkpoints that made other engines load the wrong weights in silence: the logits equal the oracle's, or the start is refused by name.
// The names of the cases are the rows of the project's list of known failures; refusals are in bad_input_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/e2e/toy_run.h"

namespace lamina::e2e {
namespace {

using fixture::random_tensor;
using fixture::TempFolder;
using fixture::toy_model;
using fixture::toy_oracle;
using fixture::toy_prompt;
using fixture::ToyModel;
using fixture::ToyShape;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kEmbedding = "model.embed_tokens.weight", kHead = "lm_head.weight";

/// Expects that two checkpoints give the same logits to the bit, and returns those of the first.
Served expect_equal(const ToyModel& a, const ToyModel& b) {
  const std::vector<TokenId> prompt = toy_prompt(40);
  Served served = serve(a, prompt);
  EXPECT_EQ(served.refusal, "");
  EXPECT_EQ(served.logits, serve(b, prompt).logits);
  return served;
}

TEST(KnownWeightFailures, TheToyModelItselfEqualsTheOracle) {
  expect_served(toy_model(), toy_oracle());
  expect_served(toy_model({.tied = true}), toy_oracle({.tied = true}));
}

TEST(KnownWeightFailures, A03FilesBesideTheIndexAreNotRead) {
  const TempFolder folder;
  const ToyModel model = toy_model();
  model.write(folder, 2);
  ToyModel other = toy_model();
  for (auto& [name, tensor] : other.tensors) tensor = random_tensor(name + "/other", tensor.shape, 1);
  folder.write("model.safetensors", fixture::safetensors_file(other.tensors));
  std::filesystem::create_directory(folder.file("original"));
  folder.write("original/model.safetensors", fixture::safetensors_file(other.tensors));
  const std::vector<TokenId> prompt = toy_prompt(40);
  const Served served = serve(folder, prompt);
  expect_oracle(served, toy_oracle(), model.tensors, prompt);
  EXPECT_THAT(served.log, AllOf(HasSubstr("ignored"), HasSubstr("model.safetensors")));
  EXPECT_EQ(std::ranges::count(served.log, '\n'), 1);
}

TEST(KnownWeightFailures, A09TensorsOfNoElementsDoNotDisturb) {
  ToyModel model = toy_model();
  model.tensors["dummy"] = fixture::constant_tensor({0}, 0);
  expect_served(model, toy_oracle());
}

TEST(KnownWeightFailures, A11TiedModelMayRepeatItsHeadAndHoldsOneCopy) {
  const ToyModel plain = toy_model({.tied = true});
  ToyModel repeated = plain;
  repeated.tensors[kHead] = repeated.tensors.at(kEmbedding);
  const Served served = expect_equal(repeated, plain);
  EXPECT_THAT(served.log, ::testing::Not(HasSubstr("warning")));
  EXPECT_EQ(served.weight_bytes, serve(plain, toy_prompt(1)).weight_bytes);
}

TEST(KnownWeightFailures, A13TheEmbeddingWinsOverAHeadThatDiffersWithOneWarning) {
  const ToyModel plain = toy_model({.tied = true});
  ToyModel differing = plain;
  differing.tensors[kHead] = random_tensor(kHead, {259, 64}, 0.8);
  const Served served = expect_equal(differing, plain);
  EXPECT_THAT(served.log, AllOf(HasSubstr("warning: "), HasSubstr(kHead), HasSubstr(kEmbedding)));
  EXPECT_EQ(std::ranges::count(served.log, '\n'), 1);
}

TEST(KnownWeightFailures, A15TheInnerTieFlagOfAWrapperCounts) {
  const ToyModel plain = toy_model({.tied = true});
  ToyModel wrapped;
  wrapped.config.set("architectures", Json(Json::Array{"LlavaForConditionalGeneration"}));
  wrapped.config.set("model_type", "llava");
  wrapped.config.set("text_config", plain.config);
  for (const auto& [name, tensor] : plain.tensors) wrapped.tensors["language_model." + name] = tensor;
  wrapped.tensors["vision_tower.patch_embed.weight"] = random_tensor("vision", {4, 4}, 1);
  wrapped.tensors["multi_modal_projector.linear.weight"] = random_tensor("projector", {4, 4}, 1);
  expect_equal(wrapped, plain);
  expect_served(plain, toy_oracle({.tied = true}));
}

TEST(KnownWeightFailures, A19EveryBiasIsApplied) {
  const ToyShape shape{.qkv_bias = true, .o_bias = true, .mlp_bias = true};
  ToyModel model = toy_model(shape);
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    model.tensors[std::string(layer) + "self_attn.o_proj.bias"] = fixture::constant_tensor({64}, 3.0F);
    model.tensors[std::string(layer) + "mlp.down_proj.bias"] = fixture::constant_tensor({64}, -2.0F);
  }
  const std::vector<TokenId> prompt = toy_prompt(40);
  const Served served = serve(model, prompt);
  expect_oracle(served, toy_oracle(shape), model.tensors, prompt);
  std::set<std::string> biases;
  for (const auto& [name, tensor] : model.tensors) {
    if (name.ends_with(".bias")) biases.insert(name);
  }
  ASSERT_EQ(biases.size(), 14U);
  for (const std::string& bias : biases) {  // a forward that loses this one is seen (a common addend of all keys moves no softmax)
    fixture::Tensors without = model.tensors;
    without.erase(bias);
    const double moved = fixture::worst_difference(oracle::logits(toy_oracle(shape), without, prompt), served.logits);
    EXPECT_GT(moved, 10 * kLogitTolerance) << bias;
  }
}

/// T0 whose real logits all lie near -`depth`: padding rows, which are zero, would win.
ToyModel sunken(double depth) {
  ToyModel model = toy_model();
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    model.tensors[std::string(layer) + "self_attn.o_proj.weight"] = fixture::constant_tensor({64, 64}, 0);
    model.tensors[std::string(layer) + "mlp.down_proj.weight"] = fixture::constant_tensor({64, 128}, 0);
  }
  model.tensors["model.norm.weight"] = fixture::constant_tensor({64}, 1);
  std::vector<float> embedding(259 * 64), head(259 * 64);
  for (size_t row = 0; row < 259; ++row) {
    embedding[row * 64] = 1.0F;  // normed to 8
    head[row * 64] = static_cast<float>(-depth / 8 + static_cast<double>(row % 7) / 8);
  }
  model.tensors[kEmbedding] = fixture::f32_tensor({259, 64}, embedding);
  model.tensors[kHead] = fixture::f32_tensor({259, 64}, head);
  return model;
}

TEST(KnownWeightFailures, A21PaddingOfTheVocabularyIsNeverSampled) {
  const ToyModel model = sunken(1000);
  expect_served(model, toy_oracle());  // 259 columns, all of them very negative
  const TempFolder folder;
  model.write(folder);
  const auto engine = Engine::start(toy_options(folder));
  ASSERT_TRUE(engine.ok());
  std::set<TokenId> seen;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const Tokens tokens = generate(**engine, {1, 258}, {.max_new_tokens = 100, .temperature = seed == 0 ? 0.0 : 100.0, .seed = seed});
    EXPECT_EQ(tokens.ids.size(), 100U);
    seen.insert(tokens.ids.begin(), tokens.ids.end());
  }
  EXPECT_GT(seen.size(), 100U);
  EXPECT_LT(*seen.rbegin(), 259);
}

TEST(KnownWeightFailures, A23AnIdWithoutATokenDecodesToNothing) {
  const ToyShape shape{.vocab = 320};
  const TempFolder folder;
  ToyModel model = toy_model(shape);
  std::vector<float> embedding(320 * 64), head(320 * 64);
  for (size_t row = 0; row < 320; ++row) embedding[row * 64] = 100.0F;
  head[300 * 64] = 10.0F;  // always 300
  model.tensors["model.embed_tokens.weight"] = fixture::f32_tensor({320, 64}, embedding);
  model.tensors["lm_head.weight"] = fixture::f32_tensor({320, 64}, head);
  model.tensors["model.norm.weight"] = fixture::constant_tensor({64}, 1);
  model.write(folder);
  folder.write("tokenizer.json", fixture::toy_tokenizer(259));
  const auto engine = Engine::start(toy_options(folder));
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const Tokens tokens = generate(**engine, {'h', 'i'}, {.max_new_tokens = 3, .temperature = 0});
  EXPECT_EQ(tokens.ids, (std::vector<TokenId>{300, 300, 300}));
  EXPECT_EQ(tokens.text, "");
  EXPECT_EQ(*(*(*engine)->tokenizer())->encode("hi", {}), (std::vector<TokenId>{'h', 'i'}));
}

}  // namespace
}  // namespace lamina::e2e
