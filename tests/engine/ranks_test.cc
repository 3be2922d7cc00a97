// An engine of many ranks gives what one rank gives.

#include <gmock/gmock.h>

#include "tests/engine/toy_engine.h"

namespace lamina::engine_test {
namespace {

/// What several requests at once get.
struct Answers {
  std::vector<std::vector<TokenId>> tokens;
  std::vector<std::vector<float>> logits;
  friend bool operator==(const Answers&, const Answers&) = default;
};

/// Lengths that end before, on and behind ends of pages and chunks.
Answers ask(Engine& engine) {
  std::vector<std::unique_ptr<RequestStream>> streams;
  for (const int length : {1, 15, 16, 17, 40, 70}) {
    EngineRequest request = greedy(fixture::toy_prompt(length), 12);
    request.all_logits = length == 40;
    auto stream = engine.submit(std::move(request));
    EXPECT_TRUE(stream.ok());
    streams.push_back(std::move(*stream));
  }
  Answers out;
  for (const auto& stream : streams) {
    out.tokens.emplace_back();
    out.logits.emplace_back();
    while (const std::optional<EngineEvent> event = stream->next()) {
      EXPECT_EQ(event->error, "");
      if (event->token) out.tokens.back().push_back(*event->token);
      out.logits.back().insert(out.logits.back().end(), event->prompt_logits.begin(), event->prompt_logits.end());
    }
  }
  return out;
}

class Ranks : public testing::TestWithParam<Topology> {};

std::string name_of(const testing::TestParamInfo<Topology>& info) {
  const Topology& t = info.param;
  return cat("Tp", t.tp_size, "Pp", t.pp_size, "Dp", t.dp_attention, t.dp_lm_head ? "Head" : "",
             t.pp_layer_partition.empty() ? "" : "Given");
}

TEST_P(Ranks, GiveTheTokensOfOneRank) {
  const ToyFolder toy;
  const Answers one = ask(*started(toy.options()));
  const Answers many = ask(*started(toy.options(GetParam())));
  EXPECT_EQ(one.tokens, many.tokens);
  ASSERT_EQ(one.logits[4].size(), many.logits[4].size());
  ASSERT_EQ(one.logits[4].size(), size_t{40} * 259);
  double worst = 0;
  for (size_t i = 0; i < one.logits[4].size(); ++i) worst = std::max(worst, std::abs(double{one.logits[4][i]} - many.logits[4][i]));
  EXPECT_LT(worst, 1e-4);
}

TEST_P(Ranks, GiveTheSameBitsAgain) {
  const ToyFolder toy;
  EXPECT_EQ(ask(*started(toy.options(GetParam()))), ask(*started(toy.options(GetParam()))));
}

INSTANTIATE_TEST_SUITE_P(Topologies, Ranks,
                         testing::Values(Topology{.tp_size = 2}, Topology{.pp_size = 2}, Topology{.tp_size = 2, .pp_size = 2},
                                         Topology{.tp_size = 2, .dp_attention = 2}, Topology{.tp_size = 4, .dp_attention = 2},
                                         Topology{.tp_size = 2, .dp_attention = 2, .dp_lm_head = true},
                                         Topology{.pp_size = 2, .pp_layer_partition = {2, 1}}),
                         name_of);

TEST(RanksOfAPipeline, OneMicroBatchInFlightGivesTheSameBits) {
  const ToyFolder toy;
  EngineOptions options = toy.options({.pp_size = 2});
  const Answers several = ask(*started(options));
  options.max_micro_batches = 1;
  EXPECT_EQ(ask(*started(options)), several);
}

TEST(RanksForms, OfTheSameTopologyGiveTheSameBits) {
  const ToyFolder toy;
  const std::pair<const char*, void (*)(EngineOptions&)> forms[] = {
      {"unfused", [](EngineOptions& o) { o.boundary_plan = "reference"; }},
      {"replicated", [](EngineOptions& o) { o.boundary_rows = "replicated"; }},
      {"scattered", [](EngineOptions& o) { o.boundary_rows = "scattered"; }},
      {"scattered, unfused", [](EngineOptions& o) { o.boundary_rows = "scattered", o.boundary_plan = "reference"; }},
      {"padded", [](EngineOptions& o) { o.dp_padding = "padded"; }},
      {"ragged", [](EngineOptions& o) { o.dp_padding = "ragged"; }},
      {"own boundaries", [](EngineOptions& o) { o.stage_boundaries = o.topology.pp_size > 1 || o.topology.dp_attention > 1; }},
      {"three threads a rank", [](EngineOptions& o) { o.threads = 3 * o.topology.world_size(); }},
      {"small chunks", [](EngineOptions& o) { o.chunked_prefill_size = 8; }},
  };
  for (const Topology& topology :
       {Topology{.tp_size = 2}, Topology{.tp_size = 2, .pp_size = 2}, Topology{.tp_size = 2, .dp_attention = 2},
        Topology{.tp_size = 4, .dp_attention = 2}, Topology{.tp_size = 4, .pp_size = 3, .dp_attention = 4, .dp_lm_head = true}}) {
    const Answers expected = ask(*started(toy.options(topology)));
    for (const auto& [form, change] : forms) {
      EngineOptions options = toy.options(topology);
      change(options);
      EXPECT_EQ(ask(*started(options)), expected) << form << ", tp " << topology.tp_size << ", dp " << topology.dp_attention;
    }
  }
}

/// The CPUs that a rank computes on.
class CpuSink final : public TapSink {
 public:
  void tap(std::string_view, std::string_view, ConstF32View, int64_t) override { cpus = allowed_cpus(); }
  void wire(std::string_view, std::string_view, uint64_t) override {}
  std::vector<int> cpus;
};

class NumaRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (cpus_.size() < 2) GTEST_SKIP() << "this process may use one CPU only";
  }
  /// Options of a machine whose first two CPUs are nodes of their own.
  EngineOptions options(const Topology& topology, const std::string& second) const {
    EngineOptions out = toy_.options(topology);
    out.numa = true;
    out.numa_root = root_.path();
    for (const auto& [node, list] : {std::pair("node0", cat(cpus_[0])), std::pair("node1", second)}) {
      std::filesystem::create_directories(root_.file(node));
      root_.write(cat(node, "/cpulist"), cat(list, "\n"));
    }
    return out;
  }
  const std::vector<int> cpus_ = allowed_cpus();
  const ToyFolder toy_;
  const fixture::TempFolder root_;
};

TEST_F(NumaRanks, ComputeOnTheirNodesWithTheSameBits) {
  for (const int ranks : {1, 2}) {
    const Topology topology{.tp_size = ranks};
    const Answers expected = ask(*started(toy_.options(topology)));
    std::vector<CpuSink> sinks(2);
    auto engine = started(options(topology, cat(cpus_[1])));
    engine->set_taps([&](int rank) { return &sinks[static_cast<size_t>(rank)]; });
    EXPECT_EQ(ask(*engine), expected) << ranks;
    engine.reset();
    const std::vector<int> one = {cpus_[0]}, other = {cpus_[1]}, both = {cpus_[0], cpus_[1]}, none;
    EXPECT_EQ(sinks[0].cpus, ranks == 1 ? both : one);
    EXPECT_EQ(sinks[1].cpus, ranks == 1 ? none : other);
    EXPECT_EQ(allowed_cpus(), cpus_) << "the caller was left bound";
  }
}

TEST_F(NumaRanks, HaveNoMoreThreadsThanTheirNodeHasCpusUnlessToldTo) {
  EngineOptions two = options({.tp_size = 2}, cat(cpus_[1]));
  two.threads = 0;
  EXPECT_EQ(open_ranks(two)->threads(), 2);
  two.threads = 6;
  EXPECT_EQ(open_ranks(two)->threads(), 6);
}

TEST_F(NumaRanks, AreRefusedWhenANodeCannotBeRead) {
  const Result<std::unique_ptr<Engine>> engine = Engine::start(options({.tp_size = 2}, "some"));
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.error().message, testing::HasSubstr(root_.file("node1/cpulist: 'some' is no list of CPUs")));
}

TEST(RanksTest, TheStartLineTellsTheTopology) {
  const ToyFolder toy;
  EXPECT_THAT(started(toy.options({.tp_size = 2, .pp_size = 2, .dp_attention = 2}))->info().start_line(),
              testing::HasSubstr(", tp 2, pp 2, dp-attention 2, 4 threads, "));
  EXPECT_THAT(started(toy.options())->info().start_line(), testing::Not(testing::HasSubstr("tp 1")));
}

}  // namespace
}  // namespace lamina::engine_test
