// What `lamina quantize` writes, loaded, against quantising the original while it is loaded.

#include "plan/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu.h"
#include "base/strings.h"
#include "tests/golden/golden_case.h"
#include "tests/support/safetensors_writer.h"

namespace lamina::golden {
namespace {

class Quantize : public testing::TestWithParam<std::string> {};

/// Modules whose inputs are no multiple of `group`, which no file of groups can hold.
std::string undivided(const ModelConfig& config, int64_t group) {
  std::vector<std::string> out;
  if (config.intermediate_size % group != 0) out.emplace_back("re:.*down_proj");
  if (config.num_attention_heads * config.head_dim % group != 0) out.emplace_back("re:.*o_proj");
  return join(out, ",");
}

/// Logits and tokens, or none when the heads do not divide over `tp` ranks.
std::optional<Output> answer(EngineOptions options, int tp, const std::vector<TokenId>& prompt) {
  options.topology.tp_size = tp;
  options.threads = tp;
  const auto engine = Engine::start(options);
  EXPECT_TRUE(engine.ok() || tp > 1) << engine.error().message;
  if (!engine.ok()) return std::nullopt;
  return run(**engine, prompt, 3);
}

void expect_same(const Case& golden_case, const EngineOptions& quantising, const std::string& written) {
  EngineOptions loading = options(golden_case, "", "auto");
  loading.model = written;
  const std::vector<TokenId> prompt = block(golden_case.golden).prompt;
  for (const int tp : {1, 2}) {
    const std::optional<Output> want = answer(quantising, tp, prompt), got = answer(loading, tp, prompt);
    ASSERT_EQ(want.has_value(), got.has_value()) << "tp " << tp;
    if (!want) continue;
    EXPECT_TRUE(got->logits == want->logits && got->greedy == want->greedy) << quantising.quantization << " tp " << tp;
  }
}

TEST_P(Quantize, WrittenCheckpointsGiveTheBitsOfQuantisingWhileLoading) {
  const Case golden_case = load(GetParam());
  const Result<ModelConfig> config = load_model_config(golden_case.folder);
  ASSERT_TRUE(config.ok()) << config.error().message;
  ThreadTeam team(2, usable_cpus());
  for (const std::string scheme : {"int8", "int4", "fp8"}) {
    const fixture::TempFolder out;
    EngineOptions quantising = options(golden_case, "", "auto");
    quantising.quantization = scheme;
    if (scheme == "int4") quantising.quantization_ignore = undivided(*config, 32);
    const auto report = quantize_checkpoint({.plan = quantising, .out = out.path(), .max_shard_bytes = 100'000}, team, {});
    if (scheme == "int4" && config->hidden_size % 32 != 0) {
      EXPECT_THAT(report.error().message,
                  testing::HasSubstr(cat("has ", config->hidden_size, " inputs, which groups of 32 do not divide")));
      EXPECT_TRUE(list_folder(out.path())->empty());
      continue;
    }
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_LT(report->bytes_after, report->bytes_before);
    EXPECT_EQ(report->left_out.size(), golden_case.name == "llama-tied-lm-head-present" ? 1U : 0U);
    expect_same(golden_case, quantising, out.path());
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Quantize, testing::ValuesIn(names()), [](const auto& golden) {
  std::string name = golden.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lamina::golden
