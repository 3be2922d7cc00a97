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

/// The block of rounded inputs; it has no prompt of its own.
Block act_quant_block(const Json& golden) {
  Json inner = *golden.find("act_quant");
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
    expect_block(options(golden_case, isa, "float32"), act_quant_block(golden_case.golden), kActQuantTolerance, isa);
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

INSTANTIATE_TEST_SUITE_P(Cases, Quant, testing::ValuesIn(quant_names()), [](const auto& golden) {
  std::string name = golden.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Quant);

TEST(QuantCases, AllOfTheSharedOnesRun) {
  if (!is_directory(kShared)) GTEST_SKIP() << "../shared is absent";
  EXPECT_EQ(quant_names().size(), 20U);
}

}  // namespace
}  // namespace lamina::golden
