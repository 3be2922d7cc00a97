// Hidden states captured between layers (what draft heads read), whoever adds to the residual.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"

namespace lamina {
namespace {

EngineOptions options(std::vector<int64_t> capture_layers, bool stage_boundaries) {
  EngineOptions out;
  out.model = LAMINA_SOURCE_DIR "/tests/golden/models/llama-aux-states";  // 6 layers
  out.dtype = "float32";
  out.max_total_tokens = 256;
  out.capture_layers = std::move(capture_layers);
  out.stage_boundaries = stage_boundaries;
  return out;
}

std::vector<std::vector<float>> captured(const EngineOptions& options) {
  auto engine = Engine::start(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  EngineRequest request{.prompt = {5, 9, 17, 40}, .sampling = {}, .all_logits = true};
  request.sampling.max_new_tokens = 0;
  auto stream = (*engine)->submit(std::move(request));
  std::vector<std::vector<float>> out;
  while (std::optional<EngineEvent> event = (*stream)->next()) {
    if (!event->captured.empty()) out = std::move(event->captured);
  }
  return out;
}

TEST(Capture, LayersThatOwnTheirResidualGiveTheSameStates) {
  const auto with_boundaries = captured(options({0, 2, 5, 6}, true));
  ASSERT_EQ(with_boundaries.size(), 4U);
  EXPECT_NE(with_boundaries[1], with_boundaries[2]);
  EXPECT_EQ(captured(options({0, 2, 5, 6}, false)), with_boundaries);
}

TEST(Capture, LayersMustAscendWithinTheModel) {
  const auto fault = [](std::vector<int64_t> layers) { return Engine::start(options(std::move(layers), true)).error().message; };
  EXPECT_THAT(fault({2, 3, 3}), testing::HasSubstr("capture layers must ascend: 3 follows 3"));
  EXPECT_THAT(fault({7}), testing::HasSubstr("capture layer 7 is outside [0, 6]"));
}

}  // namespace
}  // namespace lamina
