// Bytes that go between ranks at each boundary of a running model are those that inspect plans.

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/strings.h"
#include "engine/loaded_model.h"
#include "tests/engine/toy_engine.h"
#include "tests/support/quant_writer.h"

namespace lamina::engine_test {
namespace {

/// Adds up what the ranks get at each boundary.
class WireCounter final : public TapSink {
 public:
  void tap(std::string_view, std::string_view, ConstF32View, int64_t) override {}
  void wire(std::string_view module, std::string_view boundary, uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    bytes_[cat(module, " ", boundary)] += static_cast<int64_t>(bytes);
  }
  std::map<std::string, int64_t> bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int64_t> bytes_;
};

constexpr int kTokens = 31;  // one prefill step

std::map<std::string, int64_t> counted(const EngineOptions& options) {
  WireCounter counter;
  auto engine = Engine::start(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  (*engine)->set_taps([&](int) { return &counter; });
  EngineRequest request{.prompt = fixture::toy_prompt(kTokens), .sampling = {}, .all_logits = true};
  request.sampling.max_new_tokens = 0;
  auto stream = (*engine)->submit(std::move(request));
  EXPECT_TRUE(stream.ok()) << stream.error().message;
  while ((*stream)->next()) {
  }
  (*engine)->set_taps([](int) { return nullptr; });
  return counter.bytes();
}

/// What inspect plans for kTokens rows in `variant`.
std::map<std::string, int64_t> planned(const EngineOptions& options, const std::string& variant) {
  const Result<Json> plan = inspect_model(options);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  std::map<std::string, int64_t> out;
  for (const Json& stage : plan->find("stages")->as_array()) {
    const std::string name = stage.find("stage")->as_string();
    std::string key = "model.norm boundary";
    if (name != "final norm") {
      const size_t space = name.rfind(' ');
      key = cat("model.layers.", name.substr(6, space - 6), " ", name.substr(space + 1), "_boundary");
    }
    for (const Json& form : stage.find("variants")->as_array()) {
      if (form.find("variant")->as_string() == variant) out[key] = kTokens * form.find("wire_bytes_per_row")->as_integer();
    }
  }
  return out;
}

struct Form {
  Topology topology;
  std::string replicated, scattered;
};

std::vector<Form> forms() {
  return {{{.tp_size = 2}, "ordinary", "scattered_uneven"},
          {{.tp_size = 2, .pp_size = 2}, "ordinary", "scattered_uneven"},
          {{.tp_size = 4, .dp_attention = 2}, "dp_ragged", "dp_ragged_scattered"}};
}

TEST(Wire, BytesOfEveryBoundaryAreThoseThatInspectPlans) {
  const ToyFolder toy;
  for (const Form& form : forms()) {
    for (const std::string dtype : {"float32", "bfloat16"}) {
      for (const std::string plan : {"fused", "reference"}) {
        for (const std::string rows : {"replicated", "scattered"}) {
          EngineOptions options = toy.options(form.topology);
          options.dtype = dtype, options.boundary_plan = plan, options.boundary_rows = rows;
          const std::map<std::string, int64_t> got = counted(options);
          EXPECT_EQ(got.size(), 7U);
          EXPECT_EQ(got, planned(options, rows == "replicated" ? form.replicated : form.scattered))
              << form.topology.tp_size << " x " << form.topology.pp_size << ' ' << dtype << ' ' << plan << ' ' << rows;
        }
      }
    }
  }
}

TEST(Wire, RowsOfQuantisedInputsTravelAsCodesWhereTheirScaleIsStatic) {
  using fixture::QuantRecipe;
  for (const bool is_static : {true, false}) {
    const QuantRecipe recipe =
        is_static ? QuantRecipe{.kind = QuantRecipe::Kind::kFp8Static} : QuantRecipe{.kind = QuantRecipe::Kind::kInt8, .inputs = "int"};
    const ToyFolder toy(fixture::quant_toy(recipe, ToyFolder::shape()).model);
    for (const Form& form : forms()) {
      std::map<std::string, int64_t> bytes[2];
      for (const bool fused : {false, true}) {
        EngineOptions options = toy.options(form.topology);
        options.boundary_plan = fused ? "fused" : "reference", options.boundary_rows = "scattered";
        bytes[fused] = counted(options);
        EXPECT_EQ(bytes[fused], planned(options, form.scattered)) << "static " << is_static << " fused " << fused;
      }
      const std::string layer = "model.layers.1 ffn_boundary";
      EXPECT_EQ(bytes[true][layer] < bytes[false][layer], is_static);
    }
  }
}

}  // namespace
}  // namespace lamina::engine_test
