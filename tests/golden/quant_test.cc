// Quantised checkpoints as published, against float64 goldens of the exactly dequantised weights and of the rounded inputs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/golden/golden_case.h"

namespace lamina::golden {
namespace {

constexpr double kF32Tolerance = 1e-3;
constexpr double kActQuantTolerance = 0.05;  // the goldens' README: rounding the same values by the same formula

const std::string kShared = LAMINA_SOURCE_DIR "/../shared/golden/quant";

std::vector<std::string> quant_names() {
  const Result<std::vector<std::string>> names = list_folder(kShared);
  return names.ok() ? *names : std::vector<std::string>{};
}

Case load_quant(const std::string& name) {
  Case out{.name = name, .folder = kShared + "/" + name, .bf16_change = 0, .golden = {}};
  Result<std::string> text = read_file(out.folder + "/golden.json");
  EXPECT_TRUE(text.ok());
  Result<Json> json = parse_json(*text, name);
  EXPECT_TRUE(json.ok());
  out.golden = std::move(*json);
  return out;
}

/// The block of rounded inputs or of a rounded cache; it has no prompt of its own.
Block inner_block(const Json& golden, std::string_view key) {
  Json inner = *golden.find(key);
  inner.set("input_ids", *golden.find("input_ids"));
  return block(inner);
}

std::unique_ptr<Engine> start(const EngineOptions& options) {
  auto engine = Engine::start(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? std::move(*engine) : nullptr;
}

void expect_block(const EngineOptions& options, const Block& block, double tolerance, const std::string& where) {
  const auto engine = start(options);
  ASSERT_NE(engine, nullptr) << where;
  const Output got = run(*engine, block.prompt, static_cast<int>(block.greedy.size()));
  EXPECT_LE(worst_difference(block, got.logits), tolerance) << where;
  EXPECT_EQ(got.greedy, block.greedy) << where;
}

class Quant : public testing::TestWithParam<std::string> {};

TEST_P(Quant, PlainInputsGiveTheDequantisedWeightsLogits) {
  const Case golden_case = load_quant(GetParam());
  for (const std::string& isa : isas()) {
    EngineOptions exact = options(golden_case, isa, "float32");
    exact.act_quant = "off";
    expect_block(exact, block(golden_case.golden), kF32Tolerance, isa);
  }
}

TEST_P(Quant, RoundedInputsGiveTheLogitsOfTheRule) {
  const Case golden_case = load_quant(GetParam());
  if (golden_case.golden.find("act_quant") == nullptr) return;
  for (const std::string& isa : isas()) {
    expect_block(options(golden_case, isa, "float32"), inner_block(golden_case.golden, "act_quant"), kActQuantTolerance, isa);
  }
}

struct Ranks {
  int tp = 1, pp = 1, dp = 1;
};

TEST_P(Quant, ManyRanksGiveTheSameLogitsOrAreRefusedByTheHeads) {
  const Case golden_case = load_quant(GetParam());
  const auto config = load_model_config(golden_case.folder);
  ASSERT_TRUE(config.ok());
  const bool rounds = golden_case.golden.find("act_quant") != nullptr;
  for (const Ranks& ranks : {Ranks{.tp = 2}, Ranks{.tp = 4}, Ranks{.tp = 2, .pp = 2}, Ranks{.tp = 4, .dp = 2}}) {
    const std::string where = "tp " + std::to_string(ranks.tp) + " pp " + std::to_string(ranks.pp) + " dp " + std::to_string(ranks.dp);
    EngineOptions parallel = options(golden_case, "", "float32");
    parallel.topology.tp_size = ranks.tp, parallel.topology.pp_size = ranks.pp, parallel.topology.dp_attention = ranks.dp;
    parallel.threads = ranks.tp * ranks.pp;
    if (config->num_attention_heads % (ranks.tp / ranks.dp) != 0) {
      const auto engine = Engine::start(parallel);
      ASSERT_FALSE(engine.ok()) << where;
      EXPECT_NE(engine.error().message.find("--tp-size"), std::string::npos) << engine.error().message;
      continue;
    }
    if (rounds) expect_block(parallel, inner_block(golden_case.golden, "act_quant"), kActQuantTolerance, where);
    parallel.act_quant = "off";
    expect_block(parallel, block(golden_case.golden), kF32Tolerance, where);
  }
}

TEST_P(Quant, ChunksAndThreadsDoNotChangeABit) {
  const Case golden_case = load_quant(GetParam());
  const Block main = block(golden_case.golden);
  for (const std::string& isa : isas()) {
    const EngineOptions base = options(golden_case, isa, "auto");
    EngineOptions other = base;
    other.threads = 1, other.chunked_prefill_size = 3;
    const Output want = run(*start(base), main.prompt, 4), got = run(*start(other), main.prompt, 4);
    EXPECT_TRUE(got.logits == want.logits && got.greedy == want.greedy) << isa;
  }
}

TEST_P(Quant, InputsQuantisedWhereTheyAreMadeChangeNoBit) {
  const Case golden_case = load_quant(GetParam());
  if (golden_case.golden.find("act_quant") == nullptr) return;
  const Block main = block(golden_case.golden);
  const auto expect_same = [&](EngineOptions fused, const std::string& where) {
    EngineOptions reference = fused;
    reference.boundary_plan = "reference";
    EngineOptions by_row = fused;
    by_row.chunked_prefill_size = 1;
    const Output want = run(*start(reference), main.prompt, 4);
    for (const EngineOptions& other : {fused, by_row}) {
      const Output got = run(*start(other), main.prompt, 4);
      EXPECT_TRUE(got.logits == want.logits && got.greedy == want.greedy) << where << " chunk " << other.chunked_prefill_size;
    }
  };
  for (const std::string& isa : isas()) expect_same(options(golden_case, isa, "auto"), isa);
  const auto config = load_model_config(golden_case.folder);
  ASSERT_TRUE(config.ok());
  for (const Ranks& ranks : {Ranks{.tp = 2}, Ranks{.tp = 4}, Ranks{.pp = 2}, Ranks{.tp = 4, .dp = 2}}) {
    if (config->num_attention_heads % (ranks.tp / ranks.dp) != 0) continue;
    EngineOptions parallel = options(golden_case, "", "auto");
    parallel.topology.tp_size = ranks.tp, parallel.topology.pp_size = ranks.pp, parallel.topology.dp_attention = ranks.dp;
    parallel.threads = ranks.tp * ranks.pp;
    expect_same(parallel, "tp " + std::to_string(ranks.tp) + " pp " + std::to_string(ranks.pp) + " dp " + std::to_string(ranks.dp));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Quant, testing::ValuesIn(quant_names()), [](const auto& golden) {
  std::string name = golden.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Quant);

/// Keys and values in FP8 by the case's scales, nothing else rounded.
EngineOptions fp8_cache(const Case& golden_case, const std::string& isa) {
  EngineOptions out = options(golden_case, isa, "float32");
  out.act_quant = "off";
  out.kv_cache_dtype = "fp8_e4m3";
  if (golden_case.name == "kv-fp8-json") out.quantization_param_path = golden_case.folder + "/kv_cache_scales.json";
  return out;
}

class Fp8Cache : public testing::TestWithParam<std::string> {};

TEST_P(Fp8Cache, GivesTheLogitsOfTheRule) {
  if (!is_directory(kShared)) GTEST_SKIP() << "../shared is absent";
  const Case golden_case = load_quant(GetParam());
  const Block wanted = inner_block(golden_case.golden, "kv_fp8");
  for (const std::string& isa : isas()) expect_block(fp8_cache(golden_case, isa), wanted, kActQuantTolerance, isa);
  EngineOptions other = fp8_cache(golden_case, "");
  other.attention_backend = "reference";
  expect_block(other, wanted, kActQuantTolerance, "reference backend");
  other.attention_backend = "paged", other.topology.pp_size = 2, other.threads = 2;
  expect_block(other, wanted, kActQuantTolerance, "pp 2");
  if (!other.quantization_param_path.empty()) return;  // the file is for one rank
  for (const int tp : {2, 4}) {
    other.topology.pp_size = 1, other.topology.tp_size = tp, other.threads = tp;
    expect_block(other, wanted, kActQuantTolerance, "tp " + std::to_string(tp));
  }
}

TEST_P(Fp8Cache, EveryTypeOfCacheKeepsTheBitsWhateverTheChunks) {
  if (!is_directory(kShared)) GTEST_SKIP() << "../shared is absent";
  const Case golden_case = load_quant(GetParam());
  const Block main = block(golden_case.golden);
  for (const std::string& isa : isas()) {
    for (const char* dtype : {"fp8_e4m3", "fp8_e5m2", "int8"}) {
      EngineOptions base = fp8_cache(golden_case, isa);
      base.kv_cache_dtype = dtype;
      if (base.kv_cache_dtype == "int8") base.quantization_param_path.clear();
      EngineOptions other = base;
      other.threads = 1, other.chunked_prefill_size = 3, other.page_size = 2;
      const Output want = run(*start(base), main.prompt, 6), got = run(*start(other), main.prompt, 6);
      EXPECT_TRUE(got.logits == want.logits && got.greedy == want.greedy) << isa << ' ' << dtype;
      EXPECT_LE(worst_difference(main, want.logits), 3.0) << isa << ' ' << dtype;  // rounds, but the same model
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Fp8Cache, testing::Values("kv-fp8-json", "kv-fp8-checkpoint"),
                         [](const auto& golden) { return golden.param == "kv-fp8-json" ? "Json" : "Checkpoint"; });

TEST(QuantCases, AFileOfKvScalesMustFitTheRanks) {
  if (!is_directory(kShared)) GTEST_SKIP() << "../shared is absent";
  EngineOptions with_file = fp8_cache(load_quant("kv-fp8-json"), "");
  with_file.topology.tp_size = 2, with_file.threads = 2;
  const auto refused = Engine::start(with_file);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("kv_cache_scales.json: has scales of 1 ranks (--tp-size), wanted 2"), std::string::npos)
      << refused.error().message;
}

TEST(QuantCases, AllOfTheSharedOnesRun) {
  if (!is_directory(kShared)) GTEST_SKIP() << "../shared is absent";
  EXPECT_EQ(quant_names().size(), 20U);
}

}  // namespace
}  // namespace lamina::golden
