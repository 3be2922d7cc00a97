// Whole models on many ranks against the float64 goldens, and against themselves under every plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/golden/golden_case.h"

namespace lamina::golden {
namespace {

constexpr double kF32Tolerance = 1e-3;

struct Ranks {
  std::string name;
  Topology topology;
};

const std::vector<Ranks>& topologies() {
  static const std::vector<Ranks> all = {
      {"tp 2", {.tp_size = 2}},
      {"tp 4", {.tp_size = 4}},
      {"tp 8", {.tp_size = 8}},
      {"pp 2", {.pp_size = 2}},
      {"tp 2 x pp 2", {.tp_size = 2, .pp_size = 2}},
      {"dp-attention 2, tp 2", {.tp_size = 2, .dp_attention = 2}},
      {"dp-attention 2, tp 4", {.tp_size = 4, .dp_attention = 2}},
  };
  return all;
}

class Parallel : public testing::TestWithParam<std::string> {};

/// Why `config` cannot be cut so: a piece of the message that refuses it; empty when it can.
std::string obstacle(const ModelConfig& config, const Topology& topology) {
  const int64_t heads = config.num_attention_heads, kv = config.num_key_value_heads, attn = topology.attn_tp();
  if (heads % attn != 0) return cat(heads, " heads do not divide over --tp-size");
  if (kv >= attn && kv % attn != 0) return cat(kv, " KV heads do not divide over --tp-size");
  if (kv < attn && attn % kv != 0) return cat(kv, " KV heads cannot be replicated over --tp-size");
  if (config.intermediate_size % topology.tp_size != 0) return cat(config.intermediate_size, " features do not divide over --tp-size");
  if (config.num_hidden_layers < topology.pp_size) return "--pp-size";
  return "";
}

ModelConfig config_of(const Case& golden_case) { return load_model_config(golden_case.folder, "").value(); }

/// The engine, or null when the topology is refused as it should be.
std::unique_ptr<Engine> start(const Case& golden_case, EngineOptions options, const Ranks& ranks) {
  options.topology = ranks.topology;
  options.threads = ranks.topology.world_size();
  auto engine = Engine::start(options);
  const std::string why = obstacle(config_of(golden_case), ranks.topology);
  if (why.empty()) {
    EXPECT_TRUE(engine.ok()) << ranks.name << ": " << engine.error().message;
    return engine.ok() ? std::move(*engine) : nullptr;
  }
  EXPECT_THAT(engine.ok() ? "was served" : engine.error().message, testing::HasSubstr(why)) << ranks.name;
  return nullptr;
}

std::vector<Block> blocks(const Case& golden_case) {
  std::vector<Block> out = {block(golden_case.golden)};
  if (const Json* longer = golden_case.golden.find("long")) out.push_back(block(*longer));
  if (golden_case.name == "llama-dynamic-ntk") out.back().greedy.clear();  // as in golden_test.cc
  return out;
}

TEST_P(Parallel, LogitsAndGreedyTokensAgreeOrTheHeadsAreNamed) {
  const Case golden_case = load(GetParam());
  for (const Ranks& ranks : topologies()) {
    const auto engine = start(golden_case, options(golden_case, "", "float32"), ranks);
    if (engine == nullptr) continue;
    for (const Block& block : blocks(golden_case)) {
      const Output got = run(*engine, block.prompt, static_cast<int>(block.greedy.size()));
      EXPECT_LE(worst_difference(block, got.logits), kF32Tolerance) << ranks.name;
      EXPECT_EQ(got.greedy, block.greedy) << ranks.name;
    }
  }
}

TEST_P(Parallel, DefaultDtypeStaysWithinTheBf16Tolerance) {
  const Case golden_case = load(GetParam());
  for (const Ranks& ranks : topologies()) {
    const auto engine = start(golden_case, options(golden_case, "", "auto"), ranks);
    if (engine == nullptr) continue;
    for (const Block& block : blocks(golden_case)) {
      EXPECT_LE(worst_difference(block, run(*engine, block.prompt, 0).logits), 3 * golden_case.bf16_change) << ranks.name;
    }
  }
}

TEST_P(Parallel, EmbeddingsAgree) {
  const Case golden_case = load(GetParam());
  const std::vector<double> wanted = numbers(*golden_case.golden.find("embedding"));
  for (const Ranks& ranks : topologies()) {
    const auto engine = start(golden_case, options(golden_case, "", "float32"), ranks);
    if (engine == nullptr) continue;
    const std::vector<float> got = embed(*engine, block(golden_case.golden).prompt);
    ASSERT_EQ(got.size(), wanted.size()) << ranks.name;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-3) << ranks.name;
  }
}

/// Options that may not change a bit.
std::vector<EngineOptions> plans(const EngineOptions& base) {
  std::vector<EngineOptions> out;
  for (const std::string plan : {"fused", "reference"}) {
    for (const std::string rows : {"replicated", "scattered"}) {
      for (const std::string padding : {"padded", "ragged"}) {
        EngineOptions options = base;
        options.boundary_plan = plan, options.boundary_rows = rows, options.dp_padding = padding;
        out.push_back(options);
      }
    }
  }
  out.push_back(base);  // the same again
  out.push_back(base), out.back().chunked_prefill_size = 7, out.back().page_size = 3;
  return out;
}

TEST_P(Parallel, FullPlansVariantsChunksAndPagesChangeNoBit) {
  const Case golden_case = load(GetParam());
  for (const Ranks& ranks : topologies()) {
    if (!obstacle(config_of(golden_case), ranks.topology).empty()) continue;
    for (const std::string dtype : {"float32", "auto"}) {
      const EngineOptions base = options(golden_case, "", dtype);
      const std::vector<TokenId> prompt = block(golden_case.golden).prompt;
      const Output want = run(*start(golden_case, base, ranks), prompt, 6);
      for (const EngineOptions& plan : plans(base)) {
        if (ranks.topology.dp_attention == 1 && plan.dp_padding == "padded") continue;
        const Output got = run(*start(golden_case, plan, ranks), prompt, 6);
        EXPECT_TRUE(got.logits == want.logits && got.greedy == want.greedy)
            << ranks.name << ' ' << dtype << ' ' << plan.boundary_plan << ' ' << plan.boundary_rows << ' ' << plan.dp_padding << " chunk "
            << plan.chunked_prefill_size;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Parallel, testing::ValuesIn(names()), [](const auto& golden) {
  std::string name = golden.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lamina::golden
