// Random loads on the fake runner: every request's output equals what it is alone, whatever the chunks, retractions, rope switches and
// cancellations; the ledger is exact; there is always progress.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <utility>

#include "base/strings.h"
#include "tests/scheduler/fake_runner.h"

namespace lamina {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr int kVocab = 60;
constexpr TokenId kEos = 2;

/// What a request gives when it is computed alone, from the rules of rope lengths and ends and nothing else.
struct Alone {
  std::vector<TokenId> outputs;
  FinishReason finish = FinishReason::kNone;
  std::vector<float> prompt_logits;
  float embedding = 0;
};

int64_t rope_length(const SchedulerConfig& config, int64_t prompt, int64_t size) {
  if (config.rope_rule == RopeLengthRule::kNone) return 0;
  if (config.rope_rule == RopeLengthRule::kAtAdmission) return std::max(prompt, config.rope_original_length);
  return config.rope_original_length + (size > config.rope_original_length ? 1 : 0);
}

uint64_t attention_alone(const SchedulerConfig& config, const std::vector<TokenId>& tokens, int64_t prompt, std::vector<float>* rows) {
  const int64_t rope = rope_length(config, prompt, std::ssize(tokens));
  uint64_t state = 0;
  for (int64_t p = 0; p < std::ssize(tokens); ++p) {
    state = fold(state, kv_value(tokens[static_cast<size_t>(p)], p, rope));
    if (rows != nullptr) rows->push_back(logits_of(state));
  }
  return state;
}

Alone run_alone(const SchedulerConfig& config, const SchedulerRequest& request) {
  Alone alone;
  std::vector<TokenId> tokens = request.prompt;
  const int64_t prompt = std::ssize(tokens);
  const int64_t limit = std::min(config.context_length, config.kv.tokens()) - prompt;
  const int64_t most = request.pool ? 0 : std::min<int64_t>(request.sampling.max_new_tokens, limit);
  uint64_t state = attention_alone(config, tokens, prompt, &alone.prompt_logits);
  alone.embedding = logits_of(state);
  alone.finish = request.pool ? FinishReason::kStop : FinishReason::kLength;
  while (std::ssize(alone.outputs) < most) {
    tokens.push_back(token_of(state, *request.sampling.seed, std::ssize(alone.outputs), kVocab));
    alone.outputs.push_back(tokens.back());
    const auto& stops = request.sampling.stop_token_ids;
    if (std::find(stops.begin(), stops.end(), tokens.back()) != stops.end() || (tokens.back() == kEos && !request.sampling.ignore_eos)) {
      alone.finish = FinishReason::kStop;
      break;
    }
    state = attention_alone(config, tokens, prompt, nullptr);
  }
  return alone;
}

struct Counters {
  int64_t steps = 0, requests = 0, tokens = 0, retractions = 0, mixed = 0, cancelled = 0, refused = 0, recomputed = 0, switched = 0;
  int64_t hits = 0, cached = 0, copies = 0, flushes = 0, text_stops = 0;
  int64_t overlapped = 0, rebound = 0;
  int64_t longest_wait = 0;   // steps from submit to the first event
  int64_t longest_pause = 0;  // steps between two events of a request
};

class Simulation {
 public:
  Simulation(SchedulerConfig config, uint32_t seed) : config_(config), random_(seed), scheduler_(config), runner_(config, kVocab) {}

  void run(int steps, Counters& counters) {
    while (counters_.steps < steps) {
      while (scheduler_.waiting() < 4 * config_.dp_ranks && chance(30)) submit();
      if (chance(3)) cancel_one();
      step();
      if (::testing::Test::HasFailure()) return;
    }
    int64_t drain = 0;
    while (!scheduler_.idle() && drain++ < 100000) step();
    EXPECT_TRUE(scheduler_.idle()) << "no progress";
    EXPECT_EQ(scheduler_.held_pages(), 0);
    for (const auto& [id, live] : requests_) EXPECT_TRUE(live.ended) << "request " << id.value << " never ended";
    counters_.retractions = scheduler_.retractions();
    counters_.mixed = runner_.mixed_steps();
    counters_.recomputed = runner_.recomputed_tokens();
    counters_.copies = runner_.page_copies();
    counters_.rebound = runner_.rebound();
    add(counters);
  }

 private:
  struct Live {
    SchedulerRequest request;
    std::vector<TokenId> outputs;
    std::vector<float> prompt_logits;
    float embedding = 0;
    int64_t rope_length = 0;
    bool cancelled = false, ended = false, in_flight = false;
    int64_t last_event = 0;  // step of submission or of the last event
  };

  bool chance(uint32_t percent) { return random_() % 100 < percent; }
  int up_to(int64_t n) { return static_cast<int>(random_() % static_cast<uint64_t>(n + 1)); }

  void submit() {
    SchedulerRequest request;
    request.id = RequestId(++counters_.requests);
    request.prompt.resize(static_cast<size_t>(up_to(chance(10) ? config_.context_length + 2 : config_.context_length / 3)));
    const uint32_t family = random_() % 4;  // prompts of a family share their beginning
    const auto shared = static_cast<size_t>(up_to(std::ssize(request.prompt)));
    for (size_t i = 0; i < request.prompt.size(); ++i) {
      request.prompt[i] = i < shared && family > 0 ? static_cast<TokenId>((i * family * 7 + family) % kVocab) : up_to(kVocab - 1);
    }
    if (chance(20)) request.cache_salt = chance(50) ? "a" : "b";
    request.sampling.max_new_tokens = chance(5) ? 0 : up_to(config_.context_length);
    request.sampling.ignore_eos = chance(70);
    if (chance(20)) request.sampling.stop_token_ids = {up_to(kVocab - 1)};
    request.sampling.seed = random_();
    request.all_logits = chance(15);
    request.pool = chance(10);
    const int64_t least = std::ssize(request.prompt) + (request.pool || request.sampling.max_new_tokens == 0 ? 0 : 1);
    const bool fits = !request.prompt.empty() && least <= std::min(config_.context_length, config_.kv.tokens());
    EXPECT_EQ(scheduler_.submit(request).ok(), fits);
    if (fits) {
      Live& live = requests_[request.id];
      live.last_event = counters_.steps;
      live.request = std::move(request);
    } else
      ++counters_.refused;
  }

  void cancel_one() {
    const RequestId id(up_to(counters_.requests + 1));
    scheduler_.cancel(id);
    const auto live = requests_.find(id);
    if (live != requests_.end() && !live->second.ended) live->second.cancelled = true, ++counters_.cancelled;
  }

  void check_ledgers() const {
    for (int dp_rank = 0; dp_rank < config_.dp_ranks; ++dp_rank) {
      const KvPages pages = scheduler_.pages(dp_rank);
      EXPECT_EQ(pages.free + pages.cached + pages.held, pages.total);
      EXPECT_EQ(pages.total, config_.kv.pages);
      EXPECT_LE(scheduler_.ledger(dp_rank).cache().evictable_pages(), pages.cached);
    }
    EXPECT_LE(scheduler_.new_token_ratio(), 1.0);
  }

  /// A stop string ends a request between two of its entries.
  void stop_by_text() {
    const auto live = requests_.find(RequestId(up_to(counters_.requests)));
    if (live == requests_.end() || live->second.ended || live->second.outputs.empty() || live->second.cancelled || live->second.in_flight)
      return;
    scheduler_.finish(live->first);
    live->second.ended = true;
    ++counters_.text_stops;
  }

  /// Begins a plan or completes the oldest one.
  void step() {
    check_ledgers();
    if (chance(10)) stop_by_text();
    if (chance(10) && scheduler_.flush_cache()) ++counters_.flushes;
    const bool may_begin = runner_.in_flight() < config_.plans_in_flight;
    if (may_begin && (runner_.in_flight() == 0 || chance(75)) && begin_plan()) return;
    if (runner_.in_flight() > 0) complete_plan();
  }

  bool begin_plan() {
    scheduler_.next_step(plan_);
    if (plan_.empty()) {
      EXPECT_TRUE(scheduler_.idle() || runner_.in_flight() > 0) << "requests wait and nothing runs";
      return false;
    }
    ++counters_.steps;
    counters_.overlapped += runner_.in_flight() > 0 ? 1 : 0;
    if (scheduler_.retractions() > retractions_) {
      EXPECT_LE(++fruitless_, 2 * config_.plans_in_flight - 1) << "retractions without a token between them";
      retractions_ = scheduler_.retractions();
    }
    runner_.begin(plan_);
    for (const StepEntry& entry : plan_.entries) requests_.at(entry.request).in_flight = true;
    if (chance(3)) cancel_one();
    return true;
  }

  void complete_plan() {
    const std::vector<StepEntry> entries = runner_.oldest().entries;
    runner_.finish(result_);
    for (size_t i = 0; i < entries.size(); ++i) {
      Live& live = requests_.at(entries[i].request);
      const StepOutput& output = result_.outputs[i];
      live.in_flight = false;
      live.prompt_logits.insert(live.prompt_logits.end(), output.prompt_logits.begin(), output.prompt_logits.end());
      if (!output.embedding.empty()) live.embedding = output.embedding[0];
      counters_.switched += live.rope_length != 0 && entries[i].rope_length != live.rope_length ? 1 : 0;
      live.rope_length = entries[i].rope_length;
    }
    scheduler_.complete(result_, events_);
    for (const RequestEvent& event : events_) eat(event);
  }

  void eat(const RequestEvent& event) {
    Live& live = requests_.at(event.request);
    ASSERT_FALSE(live.ended) << "an event after the end";
    int64_t& wait = live.outputs.empty() ? counters_.longest_wait : counters_.longest_pause;
    wait = std::max(wait, counters_.steps - std::exchange(live.last_event, counters_.steps));
    if (event.token) live.outputs.push_back(*event.token), ++counters_.tokens, fruitless_ = 0;
    if (event.finish == FinishReason::kNone) return;
    live.ended = true;
    counters_.hits += event.cached_tokens > 0 ? 1 : 0;
    counters_.cached += event.cached_tokens;
    const Alone alone = run_alone(config_, live.request);
    SCOPED_TRACE(cat("request ", event.request.value, ", prompt ", live.request.prompt.size()));
    EXPECT_EQ(event.finish == FinishReason::kAbort, live.cancelled);
    if (live.cancelled) {
      ASSERT_LE(live.outputs.size(), alone.outputs.size());
      EXPECT_TRUE(std::equal(live.outputs.begin(), live.outputs.end(), alone.outputs.begin()));
      return;
    }
    EXPECT_EQ(live.outputs, alone.outputs);
    EXPECT_EQ(event.finish, alone.finish);
    EXPECT_EQ(live.prompt_logits, live.request.all_logits ? alone.prompt_logits : std::vector<float>{});
    EXPECT_EQ(live.embedding, live.request.pool ? alone.embedding : 0);
  }

  void add(Counters& total) const {
    total.steps += counters_.steps, total.requests += counters_.requests, total.tokens += counters_.tokens;
    total.retractions += counters_.retractions, total.mixed += counters_.mixed, total.cancelled += counters_.cancelled;
    total.refused += counters_.refused, total.recomputed += counters_.recomputed, total.switched += counters_.switched;
    total.hits += counters_.hits, total.cached += counters_.cached, total.copies += counters_.copies;
    total.longest_wait = std::max(total.longest_wait, counters_.longest_wait);
    total.longest_pause = std::max(total.longest_pause, counters_.longest_pause);
    total.overlapped += counters_.overlapped, total.rebound += counters_.rebound;
    total.flushes += counters_.flushes, total.text_stops += counters_.text_stops;
  }

  SchedulerConfig config_;
  std::mt19937 random_;
  Scheduler scheduler_;
  FakeRunner runner_;
  std::map<RequestId, Live> requests_;
  StepPlan plan_;
  StepResult result_;
  std::vector<RequestEvent> events_;
  Counters counters_;
  int64_t retractions_ = 0;
  int fruitless_ = 0;  // plans that retracted since the last token
};

SchedulerConfig random_config(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) { return values.begin()[random() % values.size()]; };
  SchedulerConfig config;
  config.kv = {pick({6, 12, 40, 100}), pick({1, 3, 4, 16})};
  config.max_running_requests = pick({1, 3, 8, 32});
  config.chunked_prefill_size = pick({1, 5, 7, 64});
  config.context_length = pick({20, 60, 90});
  config.rope_rule = static_cast<RopeLengthRule>(pick({0, 1, 2}));
  config.rope_original_length = pick({5, 12, 30});
  config.eos_token_ids = {kEos};
  config.prefix_cache = pick({0, 1, 1}) != 0;
  config.policy = static_cast<SchedulePolicy>(pick({0, 1}));
  config.mixed_prefill_size = pick({0, 2, 16});
  config.new_token_ratio = pick({0, 30, 70}) / 100.0;
  config.min_new_token_ratio = config.new_token_ratio / 5;
  config.dp_ranks = pick({1, 1, 2, 3});
  config.plans_in_flight = pick({1, 2, 2, 3});
  return config;
}

Counters simulate(uint32_t seeds) {
  Counters total;
  for (uint32_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    Simulation(random_config(random), seed).run(2000, total);
  }
  printf(
      "%ld steps, %ld requests (%ld refused, %ld cancelled, %ld stopped by text), %ld tokens, %ld retractions, %ld mixed steps, %ld rope "
      "switches, %ld tokens recomputed, %ld prefix hits (%ld tokens, %ld inside a page), %ld flushes, %ld plans begun while another was in "
      "flight, %ld changes of the dp rank, longest wait %ld steps, longest pause %ld\n",
      total.steps, total.requests, total.refused, total.cancelled, total.text_stops, total.tokens, total.retractions, total.mixed,
      total.switched, total.recomputed, total.hits, total.cached, total.copies, total.flushes, total.overlapped, total.rebound,
      total.longest_wait, total.longest_pause);
  return total;
}

TEST(SchedulerSimulation, EveryRequestGetsWhatItGetsAlone) {
  const Counters total = simulate(60);
  EXPECT_GE(total.steps, 100000);
  for (const int64_t count : {total.refused, total.cancelled, total.retractions, total.mixed, total.switched, total.hits, total.copies,
                              total.text_stops, total.overlapped}) {
    EXPECT_GE(count, 100);
  }
}

TEST(SchedulerSimulation, FullMillionStepsWithoutAViolatedInvariant) {
  const auto start = std::chrono::steady_clock::now();
  const Counters total = simulate(520);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  printf("%.0f steps a second\n", static_cast<double>(total.steps) / seconds);
  EXPECT_GE(total.steps, 1000000);
  EXPECT_GE(total.rebound, 100);
  EXPECT_LE(total.longest_wait, 3000) << "a request starved";
  EXPECT_LE(total.longest_pause, 3000) << "a request starved while it ran";
}

}  // namespace
}  // namespace lamina
