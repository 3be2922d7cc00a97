// Every refusal of an option names the flag, the value and what is allowed.

#include "engine/options.h"

#include <gmock/gmock.h>

#include <functional>

#include "engine/engine.h"
#include "tests/engine/toy_engine.h"

namespace lamina {
namespace {

using testing::HasSubstr;

struct Refused {
  std::function<void(EngineOptions&)> change;
  std::vector<std::string> says;
};

void expect_refused(const std::vector<Refused>& table, const std::function<Status(const EngineOptions&)>& check,
                    const EngineOptions& good = {}) {
  for (const auto& [change, says] : table) {
    EngineOptions options = good;
    change(options);
    const Status status = check(options);
    ASSERT_FALSE(status.ok()) << says.front();
    for (const std::string& part : says) EXPECT_THAT(status.error().message, HasSubstr(part));
  }
}

TEST(EngineOptions, DefaultsAreValid) { EXPECT_TRUE(validate(EngineOptions{}).ok()); }

TEST(EngineOptions, WhatIsOutOfRangeOrMisspeltIsRefusedByFlag) {
  expect_refused(
      {
          {[](EngineOptions& o) { o.load_format = "gguf"; }, {"--load-format gguf", "auto, dummy"}},
          {[](EngineOptions& o) { o.page_size = 0; }, {"--page-size 0", "1 to 4096"}},
          {[](EngineOptions& o) { o.threads = -1; }, {"--threads -1"}},
          {[](EngineOptions& o) { o.topology.tp_size = 0; }, {"--tp-size 0"}},
          {[](EngineOptions& o) { o.topology.tp_size = 5000; }, {"--tp-size 5000", "4096"}},
          {[](EngineOptions& o) { o.topology.pp_size = -2; }, {"--pp-size -2"}},
          {[](EngineOptions& o) { o.topology.dp_attention = 0; }, {"--dp-attention 0"}},
          {[](EngineOptions& o) { o.topology.tp_size = 4, o.topology.dp_attention = 3; }, {"--tp-size 4", "--dp-attention 3"}},
          {[](EngineOptions& o) { o.boundary_plan = "fast"; }, {"--boundary-plan fast", "fused, reference"}},
          {[](EngineOptions& o) { o.boundary_rows = "split"; }, {"--boundary-rows split", "auto, replicated, scattered"}},
          {[](EngineOptions& o) { o.dp_padding = "max"; }, {"--dp-padding max", "auto, padded, ragged"}},
          {[](EngineOptions& o) { o.dist_timeout = 0; }, {"--dist-timeout 0"}},
          {[](EngineOptions& o) { o.max_micro_batches = -1; }, {"--max-micro-batches -1"}},
          {[](EngineOptions& o) { o.quantization = "int5"; }, {"--quantization int5", "int8, int4, fp8"}},
          {[](EngineOptions& o) { o.quantization = "int8", o.quantization_group_size = 32; },
           {"--quantization-group-size 32", "--quantization int4", "int8 has a scale a row"}},
          {[](EngineOptions& o) { o.quantization = "int4", o.quantization_group_size = 48; },
           {"--quantization-group-size 48", "32 and 128"}},
          {[](EngineOptions& o) { o.quantization_group_size = 32; }, {"--quantization-group-size 32", "--quantization int4"}},
          {[](EngineOptions& o) { o.quantization_ignore = "lm_head"; }, {"--quantization-ignore lm_head", "--quantization int8, int4"}},
          {[](EngineOptions& o) { o.quantization = "fp8", o.quantization_ignore = "re:["; }, {"--quantization-ignore", "\"[\""}},
          {[](EngineOptions& o) { o.enable_two_batch_overlap = true; }, {"--enable-two-batch-overlap", "not built", "measurement"}},
      },
      [](const EngineOptions& o) { return validate(o); });
}

TEST(EngineOptions, ATopologyThatTheModelDoesNotAllowIsRefusedByFlag) {
  const engine_test::ToyFolder toy;
  expect_refused(
      {
          {[](EngineOptions& o) { o.topology.tp_size = 8; }, {"--tp-size 8", "4 heads"}},
          {[](EngineOptions& o) { o.topology.tp_size = 3; }, {"--tp-size 3"}},
          {[](EngineOptions& o) { o.topology.pp_size = 4; }, {"--pp-size 4", "3 layers"}},
          {[](EngineOptions& o) { o.topology.pp_size = 2, o.topology.pp_layer_partition = {1, 1}; }, {"--pp-layer-partition"}},
          {[](EngineOptions& o) { o.topology.pp_size = 2, o.topology.pp_layer_partition = {3}; }, {"--pp-layer-partition"}},
          {[](EngineOptions& o) { o.topology.pp_size = 2, o.topology.pp_layer_partition = {3, 0}; }, {"--pp-layer-partition"}},
      },
      [](const EngineOptions& o) -> Status {
        LAMINA_TRY(Engine::start(o));
        return {};
      },
      toy.options());
}

TEST(EngineOptions, QuantisingWhatIsQuantisedOrIgnoringWhatIsNotThereIsRefused) {
  const engine_test::ToyFolder toy;
  expect_refused(
      {
          {[](EngineOptions& o) { o.json_model_override_args = R"({"quantization_config": {"quant_method": "fp8"}})"; },
           {"--quantization int4", "quantised already (fp8", "config.json"}},
          {[](EngineOptions& o) { o.quantization_ignore = "model.layers.0.mlp.down_proj,model.layers.7.mlp.down_proj"; },
           {"--quantization-ignore: model.layers.7.mlp.down_proj matches no module"}},
          {[](EngineOptions& o) { o.quantization_ignore = "model.norm"; },
           {"--quantization-ignore: model.norm matches no module with a matrix"}},
          {[](EngineOptions& o) { o.quantization_ignore = "re:.*q_proj"; }, {"self_attn.qkv_proj", "q_proj is plain, k_proj is "}},
      },
      [](EngineOptions o) -> Status {
        o.quantization = "int4";
        LAMINA_TRY(Engine::start(o));
        return {};
      },
      toy.options());
}

TEST(EngineOptions, RanksShareTheThreads) {
  const engine_test::ToyFolder toy;
  const struct {
    int threads, tp, expected;
  } table[] = {{1, 2, 2}, {2, 2, 2}, {3, 2, 2}, {4, 2, 4}, {2, 1, 2}, {5, 4, 4}};
  for (const auto& [threads, tp, expected] : table) {
    EngineOptions options = toy.options({.tp_size = tp});
    options.threads = threads;
    const auto engine = engine_test::started(options);
    EXPECT_EQ(engine->info().threads, expected) << threads << " threads, tp " << tp;
  }
}

}  // namespace
}  // namespace lamina
