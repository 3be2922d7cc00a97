// Whole models against float64 goldens, and against themselves under every way of running them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/golden/golden_case.h"

namespace lamina::golden {
namespace {

constexpr double kF32Tolerance = 1e-3;

class Golden : public testing::TestWithParam<std::string> {};

std::unique_ptr<Engine> start(const EngineOptions& options) {
  auto engine = Engine::start(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? std::move(*engine) : nullptr;
}

/// The blocks of a case, with greedy tokens only where a cached run can reproduce them.
std::vector<Block> blocks(const Case& golden_case) {
  std::vector<Block> out = {block(golden_case.golden)};
  if (const Json* longer = golden_case.golden.find("long")) out.push_back(block(*longer));
  if (golden_case.name == "llama-dynamic-ntk") out.back().greedy.clear();  // its keys would have to be rotated anew at every step
  return out;
}

TEST_P(Golden, Float32LogitsAndGreedyTokensAgreeOnEveryPath) {
  const Case golden_case = load(GetParam());
  for (const std::string& isa : isas()) {
    const auto engine = start(options(golden_case, isa, "float32"));
    ASSERT_NE(engine, nullptr);
    for (const Block& block : blocks(golden_case)) {
      const Output got = run(*engine, block.prompt, static_cast<int>(block.greedy.size()));
      EXPECT_LE(worst_difference(block, got.logits), kF32Tolerance) << isa;
      EXPECT_EQ(got.greedy, block.greedy) << isa;
    }
  }
}

TEST_P(Golden, PagesChunksThreadsAndBoundariesDoNotChangeABit) {
  const Case golden_case = load(GetParam());
  for (const std::string& isa : isas()) {
    for (const std::string dtype : {"float32", "auto"}) {
      const EngineOptions base = options(golden_case, isa, dtype);
      std::vector<EngineOptions> variants(6, base);
      variants[0].page_size = 1;
      variants[1].page_size = 16;
      variants[2].chunked_prefill_size = 7;
      variants[3].threads = 1;
      variants[4].threads = 2, variants[4].chunked_prefill_size = 1, variants[4].page_size = 3;
      variants[5].stage_boundaries = false;
      for (const Block& block : blocks(golden_case)) {
        const Output want = run(*start(base), block.prompt, 8);
        for (const EngineOptions& variant : variants) {
          const Output got = run(*start(variant), block.prompt, 8);
          EXPECT_TRUE(got.logits == want.logits && got.greedy == want.greedy)
              << isa << ' ' << dtype << " page " << variant.page_size << " chunk " << variant.chunked_prefill_size << " threads "
              << variant.threads << " boundaries " << variant.stage_boundaries;
        }
      }
    }
  }
}

TEST_P(Golden, DefaultDtypeStaysWithinTheBf16Tolerance) {
  const Case golden_case = load(GetParam());
  for (const std::string& isa : isas()) {
    const auto engine = start(options(golden_case, isa, "auto"));
    ASSERT_NE(engine, nullptr);
    for (const Block& block : blocks(golden_case)) {
      EXPECT_LE(worst_difference(block, run(*engine, block.prompt, 0).logits), 3 * golden_case.bf16_change) << isa;
    }
  }
}

/// Largest difference relative to the largest entry.
double relative_difference(const std::vector<double>& want, const float* got) {
  double largest = 0, worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    worst = std::max(worst, std::abs(want[i] - got[i]));
  }
  return worst / largest;
}

TEST_P(Golden, CapturedStatesAndEmbeddingAgree) {
  const Case golden_case = load(GetParam());
  const Block main = block(golden_case.golden);
  const Json::Array& layers = golden_case.golden.find("layers_last")->as_array();
  EngineOptions with_capture = options(golden_case, "", "float32");
  for (size_t i = 0; i < layers.size(); ++i) with_capture.capture_layers.push_back(static_cast<int64_t>(i));
  const auto engine = start(with_capture);
  ASSERT_NE(engine, nullptr);
  const Output got = run(*engine, main.prompt, 0);
  ASSERT_EQ(got.captured.size(), layers.size());
  const size_t hidden = static_cast<size_t>(engine->config().hidden_size);
  for (size_t i = 0; i < layers.size(); ++i) {
    ASSERT_EQ(got.captured[i].size(), main.prompt.size() * hidden);
    EXPECT_LE(relative_difference(numbers(layers[i]), &got.captured[i][(main.prompt.size() - 1) * hidden]), 1e-3) << "before layer " << i;
  }
  if (const Json* aux = golden_case.golden.find("aux")) {
    for (size_t k = 0; k < aux->find("layers")->as_array().size(); ++k) {
      const size_t layer = static_cast<size_t>(aux->find("layers")->as_array()[k].as_integer());
      for (size_t p = 0; p < aux->find("positions")->as_array().size(); ++p) {
        const size_t position = static_cast<size_t>(aux->find("positions")->as_array()[p].as_integer());
        const std::vector<double> want = numbers(aux->find("states")->as_array()[k].as_array()[p]);
        EXPECT_LE(relative_difference(want, &got.captured[layer][position * hidden]), 1e-3)
            << "layer " << layer << " position " << position;
      }
    }
  }
  EXPECT_LE(relative_difference(numbers(*golden_case.golden.find("embedding")), embed(*engine, main.prompt).data()), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(names()), [](const auto& golden) {
  std::string name = golden.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(GoldenCases, AllOfTheSharedOnesRun) {
  if (!has_shared()) GTEST_SKIP() << "../shared is absent: only the copied cases ran";
  EXPECT_EQ(names().size(), 37U);
}

}  // namespace
}  // namespace lamina::golden
