// Requests that are submitted together: no step sees only some of them.

#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "tests/engine/toy_engine.h"

namespace lamina::engine_test {
namespace {

using testing::HasSubstr;

const std::vector<Topology> kTopologies = {{}, {.tp_size = 2}, {.pp_size = 2}, {.tp_size = 2, .dp_attention = 2}};

std::vector<EngineRequest> batch(int requests) {
  std::vector<EngineRequest> out;
  for (int r = 0; r < requests; ++r) out.push_back(greedy(fixture::toy_prompt(20), 4));
  return out;
}

/// Which request each token of a batch belongs to, in the order of their making.
std::vector<int> order_of_tokens(Engine& engine, int requests) {
  auto streams = engine.submit_together(batch(requests));
  EXPECT_TRUE(streams.ok());
  std::vector<std::pair<int64_t, int>> tokens;
  for (int r = 0; r < requests; ++r) {
    while (const auto event = (*streams)[static_cast<size_t>(r)]->next()) tokens.emplace_back(event->at_ns, r);
  }
  std::ranges::sort(tokens);
  std::vector<int> order;
  for (const auto& [at_ns, request] : tokens) order.push_back(request);
  return order;
}

TEST(SubmitTogether, MakesTokensInTheSameOrderEveryTime) {
  const ToyFolder toy;
  for (const Topology& topology : kTopologies) {
    EngineOptions options = toy.options(topology);
    options.disable_radix_cache = true;
    const auto engine = started(options);
    const std::vector<int> order = order_of_tokens(*engine, 6);
    EXPECT_EQ(order.size(), 24U);
    for (int round = 0; round < 20; ++round) EXPECT_EQ(order_of_tokens(*engine, 6), order) << topology.tp_size << topology.pp_size;
  }
}

TEST(SubmitTogether, RefusesAllForOneThatIsInvalid) {
  const ToyFolder toy;
  const auto engine = started(toy.options());
  std::vector<EngineRequest> requests = batch(3);
  requests[2].prompt[1] = -1;
  const auto refused = engine->submit_together(std::move(requests));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("prompt token id -1"));
  EXPECT_EQ(engine->stats().requests, 0);
}

TEST(SubmitTogether, EndsAllWhenTheQueueIsTooShort) {
  const ToyFolder toy;
  EngineOptions options = toy.options();
  options.max_queued_requests = 2;
  const auto engine = started(options);
  const auto refused = engine->submit_together(batch(3));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("the request queue is full"));
  while (engine->stats().running + engine->stats().waiting > 0) std::this_thread::yield();
  EXPECT_EQ(order_of_tokens(*engine, 2).size(), 8U);
}

}  // namespace
}  // namespace lamina::engine_test
