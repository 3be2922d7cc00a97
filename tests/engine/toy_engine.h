#pragma once
// Engines of a small random model, in float32, at any topology.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/toy_model.h"

namespace lamina::engine_test {

/// A model in a folder of its own, deleted with the object.
class ToyFolder {
 public:
  explicit ToyFolder(const fixture::ToyModel& model = fixture::toy_model(shape())) {
    model.write(folder_);
    folder_.write("tokenizer.json", fixture::toy_tokenizer(259));
  }

  static fixture::ToyShape shape() { return {.layers = 3}; }

  EngineOptions options(const Topology& topology = {}) const {
    EngineOptions out;
    out.model = folder_.path();
    out.dtype = "float32";
    out.kv_cache_dtype = "float32";
    out.max_total_tokens = 2048;
    out.max_running_requests = 8;
    out.chunked_prefill_size = 32;
    out.threads = topology.world_size();
    out.topology = topology;
    return out;
  }

 private:
  fixture::TempFolder folder_;
};

inline std::unique_ptr<Engine> started(const EngineOptions& options) {
  Result<std::unique_ptr<Engine>> engine = Engine::start(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? std::move(*engine) : nullptr;
}

/// Greedy, to the limit.
inline EngineRequest greedy(std::vector<TokenId> prompt, int new_tokens) {
  EngineRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_new_tokens = new_tokens;
  return request;
}

}  // namespace lamina::engine_test
