// Config oddities that made other engines give wrong logits in silence: served as Transformers reads them, at every position. The names
// of the cases are the rows of the project's list of known failures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/config_reader.h"
#include "tests/e2e/toy_run.h"

namespace lamina::e2e {
namespace {

using fixture::TempFolder;
using fixture::toy_model;
using fixture::toy_oracle;
using fixture::toy_prompt;
using fixture::ToyModel;
using fixture::ToyShape;
using oracle::plain_rope;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Reading {
  const char* name;
  ToyShape shape = {};
  std::string config = "{}";                // merged over config.json
  const char* absent = "";                  // a key that is taken out of it
  int prompt = 40;                          // tokens
  void (*right)(oracle::Model&) = nullptr;  // what it means, where that is not the plain shape
  void (*wrong)(oracle::Model&) = nullptr;  // what others made of it
};

void PrintTo(const Reading& reading, std::ostream* out) { *out << reading.name; }

class ConfigReadings : public ::testing::TestWithParam<Reading> {};

TEST_P(ConfigReadings, LogitsEqualTheOracleAtEveryPosition) {
  const Reading& row = GetParam();
  ToyModel model = toy_model(row.shape);
  model.drop(row.absent);
  merge_json(model.config, *parse_json(row.config, row.name));
  oracle::Model right = toy_oracle(row.shape);
  if (row.right != nullptr) row.right(right);
  const std::vector<TokenId> prompt = toy_prompt(row.prompt);
  const Served served = serve(model, prompt);
  expect_oracle(served, right, model.tensors, prompt);
  if (row.wrong == nullptr) return;
  oracle::Model wrong = toy_oracle(row.shape);
  row.wrong(wrong);
  EXPECT_GT(fixture::worst_difference(oracle::logits(wrong, model.tensors, prompt), served.logits), kVisible) << "this case shows nothing";
}

const ToyShape kQwen2 = {.layers = 4, .qkv_bias = true};

/// Layers of two types, the first one sliding, with a rope for each.
std::string nested(const std::string& full, const std::string& sliding) {
  return cat(R"({"architectures": ["MistralForCausalLM"], "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"],
    "max_position_embeddings": 128, "rope_parameters": {"full_attention": )",
             full, R"(, "sliding_attention": )", sliding, "}}");
}

std::string long_rope_config(const char* key, const char* name) {
  return cat(R"({"max_position_embeddings": 128, "original_max_position_embeddings": 32, "rope_scaling": {")", key, R"(": ")", name,
             R"(", "short_factor": [1, 1, 1.5, 2, 2, 3, 3, 4], "long_factor": [1, 2, 3, 4, 6, 8, 12, 16]}})");
}
const std::vector<double> kShort = {1, 1, 1.5, 2, 2, 3, 3, 4}, kLong = {1, 2, 3, 4, 6, 8, 12, 16};

std::string windowed(const char* use) {
  return cat(R"({"architectures": ["Qwen2ForCausalLM"], "sliding_window": 8, "max_window_layers": 2, "use_sliding_window": )", use, "}");
}

const Reading kReadings[] = {
    {.name = "B01HeadDimUnlikeHiddenOverHeads",
     .shape = {.head_dim = 24},
     .wrong = [](oracle::Model& m) { m.ropes = {plain_rope(10000, 16)}; }},
    {.name = "B03KvHeadsAbsent", .shape = {.kv_heads = 4}, .absent = "num_key_value_heads"},
    {.name = "B03KvHeadsNull", .shape = {.kv_heads = 4}, .config = R"({"num_key_value_heads": null})"},
    {.name = "B05ThetaShowsAtPosition200",
     .config = R"({"rope_theta": 500000.0})",
     .prompt = 201,
     .right = [](oracle::Model& m) { m.ropes = {plain_rope(500000, 16)}; },
     .wrong = [](oracle::Model&) {}},
    {.name = "B07EachLayerTypeHasItsRope",
     .config = nested(R"({"rope_type": "default", "rope_theta": 1000000.0})", R"({"rope_type": "default", "rope_theta": 100.0})"),
     .right = [](oracle::Model& m) { m.ropes = {plain_rope(100, 16), plain_rope(1e6, 16)}, m.windows = {8, 0}; },
     .wrong = [](oracle::Model& m) { m.ropes = {plain_rope(1e6, 16)}, m.windows = {8, 0}; }},
    {.name = "B07FlatForm",
     .config = R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}})",
     .right = [](oracle::Model& m) { m.ropes = {plain_rope(1e6, 16)}; },
     .wrong = [](oracle::Model&) {}},
    {.name = "B07LengthDependentRopeOfLaterLayers",
     .config = nested(R"({"rope_type": "longrope", "original_max_position_embeddings": 32, "short_factor": [1, 1, 1.5, 2, 2, 3, 3, 4],
       "long_factor": [1, 2, 3, 4, 6, 8, 12, 16]})",
                      R"({"rope_type": "default"})"),
     .right = [](oracle::Model& m) { m.ropes = {plain_rope(10000, 16), oracle::long_rope(10000, kLong, 128, 32)}, m.windows = {8, 0}; },
     .wrong = [](oracle::Model& m) { m.ropes = {plain_rope(10000, 16), oracle::long_rope(10000, kShort, 128, 32)}, m.windows = {8, 0}; }},
    {.name = "B09YarnWithinItsLength",
     .config = R"({"max_position_embeddings": 128, "rope_scaling": {"rope_type": "yarn", "factor": 4,
       "original_max_position_embeddings": 32}})",
     .prompt = 128,
     .right = [](oracle::Model& m) { m.ropes = {oracle::yarn_rope(10000, 16, 4, 32)}; },
     .wrong = [](oracle::Model&) {}},
    {.name = "B13PartialRotaryFactorIsAppliedOnce",
     .shape = {.layers = 3},
     .config = R"({"partial_rotary_factor": 0.5})",
     .right = [](oracle::Model& m) { m.ropes = {plain_rope(10000, 8)}; },
     .wrong = [](oracle::Model& m) { m.ropes = {plain_rope(10000, 4)}; }},
    {.name = "B13PartialRotaryFactorIsNotHalvedLayerByLayer",
     .shape = {.layers = 3},
     .config = R"({"partial_rotary_factor": 0.5})",
     .right = [](oracle::Model& m) { m.ropes = {plain_rope(10000, 8)}; },
     .wrong = [](oracle::Model& m) { m.ropes = {plain_rope(10000, 8), plain_rope(10000, 4), plain_rope(10000, 2)}; }},
    {.name = "B15LayersFromMaxWindowLayersOnSlide",
     .shape = kQwen2,
     .config = windowed("true"),
     .right = [](oracle::Model& m) { m.windows = {0, 0, 8, 8}; },
     .wrong = [](oracle::Model& m) { m.windows = {8, 8, 0, 0}; }},
    {.name = "B15AWindowHoldsTheTokenItself",
     .shape = kQwen2,
     .config = windowed("true"),
     .right = [](oracle::Model& m) { m.windows = {0, 0, 8, 8}; },
     .wrong = [](oracle::Model& m) { m.windows = {0, 0, 9, 9}; }},
    {.name = "B15NotUsedIsNone",
     .shape = kQwen2,
     .config = windowed("false"),
     .right = [](oracle::Model&) {},
     .wrong = [](oracle::Model& m) { m.windows = {0, 0, 8, 8}; }},
    {.name = "Linear",
     .config = R"({"rope_scaling": {"type": "linear", "factor": 4}})",
     .right = [](oracle::Model& m) { m.ropes = {oracle::linear_rope(10000, 16, 4)}; },
     .wrong = [](oracle::Model&) {}},
    {.name = "DynamicBeyondTheLength",
     .config = R"({"max_position_embeddings": 32, "rope_scaling": {"type": "dynamic", "factor": 2}})",
     .right = [](oracle::Model& m) { m.ropes = {oracle::dynamic_rope(10000, 16, 2, 32, 40)}; },
     .wrong = [](oracle::Model&) {}},
    {.name = "Llama3",
     .config = R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
       "original_max_position_embeddings": 64}})",
     .right = [](oracle::Model& m) { m.ropes = {oracle::llama3_rope(10000, 16, 8, 64)}; },
     .wrong = [](oracle::Model&) {}},
    {.name = "QueryAndKeyNorm", .shape = {.qk_norm = true}, .config = R"({"architectures": ["Qwen3ForCausalLM"]})"},
};
INSTANTIATE_TEST_SUITE_P(Rows, ConfigReadings, ::testing::ValuesIn(kReadings), [](const auto& test) { return test.param.name; });

TEST(KnownConfigFailures, B11SuIsLongrope) {
  for (const int length : {20, 40}) {  // below and beyond the original length
    const std::vector<TokenId> prompt = toy_prompt(length);
    ToyModel old_name = toy_model(), new_name = toy_model();
    merge_json(old_name.config, *parse_json(long_rope_config("type", "su"), "su"));
    merge_json(new_name.config, *parse_json(long_rope_config("rope_type", "longrope"), "longrope"));
    const Served served = serve(new_name, prompt);
    oracle::Model right = toy_oracle(), wrong = toy_oracle();
    right.ropes = {oracle::long_rope(10000, length > 32 ? kLong : kShort, 128, 32)};
    wrong.ropes = {oracle::long_rope(10000, length > 32 ? kShort : kLong, 128, 32)};
    expect_oracle(served, right, new_name.tensors, prompt);
    EXPECT_GT(fixture::worst_difference(oracle::logits(wrong, new_name.tensors, prompt), served.logits), kVisible);
    EXPECT_EQ(serve(old_name, prompt).logits, served.logits);
  }
}

TEST(KnownConfigFailures, B07RopesThatDependOnLengthInTwoWaysAreRefused) {
  ToyModel model = toy_model();
  const std::string two = nested(R"({"rope_type": "dynamic", "factor": 4})", R"({"rope_type": "dynamic", "factor": 2})");
  merge_json(model.config, *parse_json(two, "two"));
  const Served same_rule = serve(model, toy_prompt(160));
  oracle::Model right = toy_oracle();
  right.ropes = {oracle::dynamic_rope(10000, 16, 2, 128, 160), oracle::dynamic_rope(10000, 16, 4, 128, 160)}, right.windows = {8, 0};
  expect_oracle(same_rule, right, model.tensors, toy_prompt(160));  // one rule and one threshold serve both

  const std::string mixed = nested(R"({"rope_type": "dynamic", "factor": 4})",
                                   R"({"rope_type": "longrope", "original_max_position_embeddings": 32,
      "short_factor": [1, 1, 1, 1, 1, 1, 1, 1], "long_factor": [2, 2, 2, 2, 2, 2, 2, 2]})");
  merge_json(model.config, *parse_json(mixed, "mixed"));
  EXPECT_THAT(serve(model, toy_prompt(40)).refusal, HasSubstr("depend on length in different ways"));
}

TEST(KnownConfigFailures, B09LongPromptsAreRefusedAtTheScaledLength) {
  ToyModel model = toy_model();
  merge_json(model.config, *parse_json(R"({"max_position_embeddings": 128, "rope_scaling": {"rope_type": "yarn", "factor": 4,
    "original_max_position_embeddings": 32}})",
                                       "yarn"));
  EXPECT_THAT(serve(model, toy_prompt(200)).refusal, AllOf(HasSubstr("200 tokens"), HasSubstr("128")));
  EXPECT_THAT(serve(model, toy_prompt(129)).refusal, AllOf(HasSubstr("129 tokens"), HasSubstr("128")));
}

/// A model that says `token` whatever it is asked: the embedding of every id points the same way and so does the head's row of `token`.
ToyModel reciting(TokenId token) {
  ToyModel model = toy_model();
  std::vector<float> embedding(259 * 64), head(259 * 64);
  for (size_t row = 0; row < 259; ++row) embedding[row * 64] = 100.0F;
  head[static_cast<size_t>(token) * 64] = 10.0F;
  model.tensors["model.embed_tokens.weight"] = fixture::f32_tensor({259, 64}, embedding);
  model.tensors["lm_head.weight"] = fixture::f32_tensor({259, 64}, head);
  model.tensors["model.norm.weight"] = fixture::constant_tensor({64}, 1.0F);
  return model;
}

TEST(KnownConfigFailures, B17AnyIdOfGenerationConfigEndsAnAnswer) {
  const TempFolder folder;
  ToyModel model = reciting(5);
  model.config.set("eos_token_id", 2);
  model.write(folder);
  SamplingParams sampling{.max_new_tokens = 8, .temperature = 0};
  {
    const auto engine = Engine::start(toy_options(folder));
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    const Tokens tokens = generate(**engine, {1, 3}, sampling);
    EXPECT_EQ(tokens.ids, std::vector<TokenId>(8, 5));  // config.json alone does not end it
    EXPECT_EQ(tokens.finish, FinishReason::kLength);
  }
  folder.write("generation_config.json", R"({"eos_token_id": [2, 5]})");
  const auto engine = Engine::start(toy_options(folder));
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const Tokens tokens = generate(**engine, {1, 3}, sampling);
  EXPECT_THAT(tokens.ids, ElementsAre(5));
  EXPECT_EQ(tokens.finish, FinishReason::kStop);
  sampling.ignore_eos = true;
  EXPECT_EQ(generate(**engine, {1, 3}, sampling).ids.size(), 8U);
}

TEST(KnownConfigFailures, B19SuggestedSamplingIsNotAppliedAndSaid) {
  const TempFolder folder;
  toy_model().write(folder);
  const SamplingParams hot{.max_new_tokens = 8, .temperature = 10, .seed = 3};
  const auto plain = Engine::start(toy_options(folder));
  ASSERT_TRUE(plain.ok());
  folder.write("generation_config.json", R"({"do_sample": true, "temperature": 0.1, "top_k": 1})");
  ::testing::internal::CaptureStderr();
  const auto engine = Engine::start(toy_options(folder));
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(engine.ok());
  EXPECT_THAT(log, AllOf(HasSubstr("generation_config.json"), HasSubstr("temperature 0.1"), HasSubstr("top_k 1"),
                         HasSubstr("only serve follows it")));
  EXPECT_EQ(generate(**engine, {1, 3}, hot).ids, generate(**plain, {1, 3}, hot).ids);
  EXPECT_NE(generate(**engine, {1, 3}, hot).ids, generate(**engine, {1, 3}, {.max_new_tokens = 8, .temperature = 0}).ids);
}

struct Spelling {
  const char* config;
  DType wanted;
};

TEST(KnownConfigFailures, B21DtypeGoesBeforeTorchDtypeBeforeTheTensors) {
  const Spelling spellings[] = {{R"({"torch_dtype": "bfloat16"})", DType::kBF16},
                                {R"({"dtype": "bfloat16", "torch_dtype": "float32"})", DType::kBF16},
                                {R"({"dtype": "float16"})", DType::kF16},
                                {R"({"dtype": "bfloat16", "torch_dtype": null})", DType::kBF16},
                                {R"({"dtype": null, "torch_dtype": "float16"})", DType::kF16},
                                {R"({"dtype": null})", DType::kF32}};
  for (const Spelling& spelling : spellings) {
    const TempFolder folder;
    ToyModel model = toy_model();
    model.drop("torch_dtype");
    merge_json(model.config, *parse_json(spelling.config, "dtype"));
    model.write(folder);
    const auto engine = Engine::start(toy_options(folder));
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    EXPECT_EQ((*engine)->info().dtype, spelling.wanted) << spelling.config;
    EXPECT_THAT((*engine)->info().start_line(), HasSubstr(torch_dtype_name(spelling.wanted)));
  }
}

/// Joins tensors along their rows, as Phi-3 stores them.
void fuse(ToyModel& model, const std::string& prefix, const std::vector<std::string>& parts, const std::string& fused) {
  fixture::Tensor out;
  for (const std::string& part : parts) {
    const fixture::Tensor& tensor = model.tensors.at(prefix + part + ".weight");
    if (out.shape.empty()) out = {tensor.dtype, {0, tensor.shape[1]}, ""};
    out.shape[0] += tensor.shape[0];
    out.bytes += tensor.bytes;
    model.tensors.erase(prefix + part + ".weight");
  }
  model.tensors[prefix + fused + ".weight"] = out;
}

TEST(KnownConfigFailures, B23FusedCheckpointsEqualTheirSplitForm) {
  const ToyModel split = toy_model();
  ToyModel fused = toy_model();
  fused.config.set("architectures", Json(Json::Array{"Phi3ForCausalLM"}));
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    fuse(fused, std::string(layer) + "self_attn.", {"q_proj", "k_proj", "v_proj"}, "qkv_proj");
    fuse(fused, std::string(layer) + "mlp.", {"gate_proj", "up_proj"}, "gate_up_proj");
  }
  const std::vector<TokenId> prompt = toy_prompt(40);
  const Served served = serve(fused, prompt);
  expect_oracle(served, toy_oracle(), split.tensors, prompt);
  EXPECT_EQ(served.logits, serve(split, prompt).logits);
}

}  // namespace
}  // namespace lamina::e2e
