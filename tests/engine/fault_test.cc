// A fault of the ranks ends every request with an error, and the engine for good.

#include <gmock/gmock.h>

#include <future>

#include "tests/engine/toy_engine.h"
#include "tests/support/step_gate.h"

namespace lamina::engine_test {
namespace {

using testing::HasSubstr;

TEST(Fault, EndsRequestsInFlightAndRefusesOthers) {
  const ToyFolder toy;
  for (const Topology& topology : {Topology{}, Topology{.tp_size = 2}, Topology{.pp_size = 2}, Topology{.tp_size = 2, .dp_attention = 2}}) {
    fixture::StepGate gate;  // no request ends before the fault
    const auto engine = started(toy.options(topology));
    engine->set_taps([&](int rank) { return rank == 0 ? &gate : nullptr; });
    std::vector<std::unique_ptr<RequestStream>> streams;
    for (int r = 0; r < 3; ++r) {
      auto stream = engine->submit(greedy(fixture::toy_prompt(20), 400));
      ASSERT_TRUE(stream.ok());
      streams.push_back(std::move(*stream));
    }
    while (!streams[0]->try_next()) gate.let_one();
    EXPECT_EQ(engine->fault(), "");
    engine->rank_fault().raise("rank 1 is gone");
    gate.open();
    for (const auto& stream : streams) {
      EngineEvent last;
      while (std::optional<EngineEvent> event = stream->next()) last = std::move(*event);
      EXPECT_EQ(last.finish, FinishReason::kAbort);
      EXPECT_EQ(last.error, "rank 1 is gone");
    }
    EXPECT_EQ(engine->fault(), "rank 1 is gone");
    const auto refused = engine->submit(greedy({1}, 1));
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("rank 1 is gone"));
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.running + stats.waiting, 0);
    EXPECT_EQ(stats.aborted, 3);
  }
}

TEST(Fault, OfAnIdleEngineIsNoticed) {
  const ToyFolder toy;
  const auto engine = started(toy.options({.tp_size = 2}));
  std::promise<void> told;
  engine->set_on_fault([&] { told.set_value(); });
  engine->rank_fault().raise("rank 1 is gone");
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  engine->set_on_fault({});
}

TEST(Fault, IsToldToWhoAsksLater) {
  const ToyFolder toy;
  const auto engine = started(toy.options({.tp_size = 2}));
  std::promise<void> first;
  engine->set_on_fault([&] { first.set_value(); });
  engine->rank_fault().raise("rank 1 is gone");
  first.get_future().wait();
  bool told = false;
  engine->set_on_fault([&] { told = true; });
  EXPECT_TRUE(told);
  engine->set_on_fault({});
}

}  // namespace
}  // namespace lamina::engine_test
