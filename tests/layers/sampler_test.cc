#include "layers/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/kernels.h"

namespace lamina {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingParams seeded(uint64_t seed = 7) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

/// The token at an output position; without a history the outputs before it are zeros.
Result<TokenId> pick_at(const std::vector<float>& logits, const SamplingParams& params, int64_t position, SamplerScratch& scratch) {
  const std::vector<TokenId> outputs(static_cast<size_t>(position), 0);
  return sample(kernels::table(Isa::kRef), logits, {.params = params, .history = outputs}, scratch);
}

Result<TokenId> pick(const std::vector<float>& logits, const SamplingParams& params, const std::vector<TokenId>& prompt = {},
                     const std::vector<TokenId>& outputs = {}, const std::vector<TokenId>& end_tokens = {}) {
  SamplerScratch scratch(std::ssize(logits));
  std::vector<TokenId> history = prompt;
  history.insert(history.end(), outputs.begin(), outputs.end());
  const SampleContext context{params, history, std::ssize(prompt), end_tokens};
  return sample(kernels::table(Isa::kRef), logits, context, scratch);
}

std::vector<float> random_logits(int64_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (float& logit : logits) logit = normal(random);
  return logits;
}

/// The definition, by sorting everything in f64.
std::vector<double> expected_probabilities(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  std::vector<double> weights;
  for (const size_t id : order) weights.push_back(std::exp((logits[id] - logits[order[0]]) / params.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  size_t kept = 0;
  while (kept < order.size() && sum < params.top_p * total) sum += weights[kept++];
  while (kept > 1 && weights[kept - 1] < params.min_p * weights[0]) --kept;
  const double kept_total = std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  std::vector<double> probabilities(logits.size(), 0.0);
  for (size_t i = 0; i < kept; ++i) probabilities[order[i]] = weights[i] / kept_total;
  return probabilities;
}

struct Setting {
  double temperature, top_p;
  int top_k;
  double min_p;
};

TEST(Sampler, DrawsFollowTheDefinition) {
  constexpr int kVocab = 40, kDraws = 20000;
  const std::vector<float> logits = random_logits(kVocab, 11);
  for (const Setting& s : std::vector<Setting>{{1, 1, -1, 0},
                                               {0.7, 1, -1, 0},
                                               {2.5, 1, -1, 0},
                                               {1, 1, 5, 0},
                                               {3, 1, 39, 0},
                                               {1, 0.6, -1, 0},
                                               {2, 0.95, -1, 0},
                                               {1, 1, -1, 0.1},
                                               {2, 0.8, 12, 0.05},
                                               {100, 1, -1, 0},
                                               {1, 1e-9, -1, 0},
                                               {5, 1, 1000, 0}}) {
    SamplingParams params = seeded();
    params.temperature = s.temperature, params.top_p = s.top_p, params.top_k = s.top_k, params.min_p = s.min_p;
    const std::vector<double> expected = expected_probabilities(logits, params);
    SamplerScratch scratch(kVocab);
    std::vector<int> counts(kVocab, 0);
    for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(*pick_at(logits, params, i, scratch))];
    for (size_t id = 0; id < kVocab; ++id) {
      const double sigma = std::sqrt(kDraws * expected[id] * (1 - expected[id]));
      EXPECT_NEAR(counts[id], kDraws * expected[id], 5 * sigma)
          << "id " << id << ", T " << s.temperature << ", top_p " << s.top_p << ", top_k " << s.top_k;
    }
  }
}

TEST(Sampler, LargeVocabularyStaysWithinTheKeptSet) {
  const std::vector<float> logits = random_logits(50000, 5);
  for (const Setting& s :
       std::vector<Setting>{{1, 0.9, -1, 0}, {1, 1, 50, 0}, {1.3, 0.99, 2000, 1e-3}, {20, 0.5, -1, 0}, {1e-3, 1, 50, 0}}) {
    SamplingParams params = seeded(99);
    params.temperature = s.temperature, params.top_p = s.top_p, params.top_k = s.top_k, params.min_p = s.min_p;
    const std::vector<double> expected = expected_probabilities(logits, params);
    SamplerScratch scratch(std::ssize(logits));
    for (int i = 0; i < 50; ++i)
      EXPECT_GT(expected[static_cast<size_t>(*pick_at(logits, params, i, scratch))], 0.0) << "T " << s.temperature;
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEqualsWhateverElseIsAsked) {
  SamplingParams params = seeded();
  params.temperature = 9e-7, params.top_p = 0.1, params.top_k = 3, params.min_p = 0.9;
  EXPECT_EQ(*pick({1, 5, 5, 2}, params), 1);
  params.seed.reset();
  EXPECT_EQ(*pick({1, 5, 5, 2}, params), 1);
}

TEST(Sampler, TopKKeepsTheLowestIdsOfEquals) {
  SamplingParams params = seeded();
  params.top_k = 2;
  for (int i = 0; i < 200; ++i) EXPECT_LT(*pick({3, 3, 3, 3}, params, {}, std::vector<TokenId>(static_cast<size_t>(i), 0)), 2);
}

/// The `count` largest, lowest ids on ties, and -inf elsewhere.
std::vector<float> only_largest(const std::vector<float>& logits, int count) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<float> out(logits.size(), -kInf);
  for (size_t i = 0; i < std::min(logits.size(), static_cast<size_t>(count)); ++i) out[order[i]] = logits[order[i]];
  return out;
}

TEST(Sampler, SeesNoDifferenceInARowOfTheCandidatesItLooksAt) {
  std::vector<float> logits = random_logits(400, 21);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (i % 3 == 0) logits[i] = std::round(logits[i]);              // many equals
    if (i % 5 == 0) logits[i] = static_cast<float>(i % 7) * 1e-8F;  // apart by less than what they keep of it 30 below the best
  }
  logits[123] = 30;
  SamplerScratch scratch(std::ssize(logits));
  for (const Setting& s : std::vector<Setting>{{0, 1, -1, 0},
                                               {1, 1, 1, 0},
                                               {1, 1, 7, 0},
                                               {30, 1, 50, 0},
                                               {30, 0.7, 50, 0},
                                               {30, 1, 200, 0.3},
                                               {30, 0.9, 400, 0},
                                               {30, 1, 999, 0}}) {
    SamplingParams params = seeded(4);
    params.temperature = s.temperature, params.top_p = s.top_p, params.top_k = s.top_k, params.min_p = s.min_p;
    const int count = looked_at(params);
    ASSERT_GT(count, 0);
    const std::vector<float> largest = only_largest(logits, count), more = only_largest(logits, count + 9);
    for (int i = 0; i < 100; ++i) {
      const TokenId wanted = *pick_at(logits, params, i, scratch);
      EXPECT_EQ(*pick_at(largest, params, i, scratch), wanted) << "top_k " << s.top_k << ", draw " << i;
      EXPECT_EQ(*pick_at(more, params, i, scratch), wanted) << "top_k " << s.top_k << ", draw " << i;
    }
  }
}

TEST(Sampler, LooksAtEveryLogitThatASettingMayRaiseOrReport) {
  SamplingParams greedy;
  greedy.temperature = 0;
  EXPECT_EQ(looked_at(greedy), 1);
  EXPECT_EQ(looked_at(SamplingParams{}), 0);
  for (const auto& change : std::vector<void (*)(SamplingParams&)>{
           [](SamplingParams& p) { p.repetition_penalty = 1.1; }, [](SamplingParams& p) { p.presence_penalty = 0.1; },
           [](SamplingParams& p) { p.frequency_penalty = -0.1; }, [](SamplingParams& p) { p.logit_bias = {{3, 1.0F}}; },
           [](SamplingParams& p) { p.min_new_tokens = 1; }, [](SamplingParams& p) { p.top_logprobs = 0; }}) {
    SamplingParams params = greedy;
    change(params);
    EXPECT_EQ(looked_at(params), 0);
  }
}

TEST(Sampler, RepetitionPenaltyCountsEachIdOnceAndShrinksEitherSign) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 2;
  EXPECT_EQ(*pick({6, 4, 1}, params, {0, 0, 0, 0}), 1);    // 6 / 2 = 3
  EXPECT_EQ(*pick({6, 2.5, 1}, params, {0, 0, 0, 0}), 0);  // penalised once: 3, not 6 / 16
  EXPECT_EQ(*pick({-1, -1.5, -9}, params, {0}), 1);        // -1 * 2
  EXPECT_EQ(*pick({6, 4, 1}, params, {}), 0);
}

TEST(Sampler, DependsOnSeedAndPositionAlone) {
  const std::vector<float> logits = random_logits(1000, 3);
  SamplerScratch fresh(1000), used(1000);
  ASSERT_TRUE(pick_at(random_logits(1000, 4), seeded(1), 5, used).ok());
  std::vector<TokenId> first, again, other;
  for (int i = 0; i < 40; ++i) {
    first.push_back(*pick_at(logits, seeded(1), i, fresh));
    again.push_back(*pick_at(logits, seeded(1), i, used));
    other.push_back(*pick_at(logits, seeded(2), i, used));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_NE(std::count(first.begin(), first.end(), first[0]), 40);
}

TEST(Sampler, NumbersThatAreNoneAreNeverChosen) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params = seeded();
    params.temperature = temperature;
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(*pick({kNan, -kInf, 0.5F, kNan}, params, {}, std::vector<TokenId>(static_cast<size_t>(i), 0)), 2);
    EXPECT_EQ(*pick({1, kInf, 2, kInf}, params), 1);
    for (const std::vector<float>& logits : std::vector<std::vector<float>>{{kNan, kNan}, {-kInf, -kInf}, {kNan, -kInf}, {}}) {
      const Result<TokenId> token = pick(logits, params);
      ASSERT_FALSE(token.ok());
      EXPECT_NE(token.error().message.find("NaN or -inf"), std::string::npos);
    }
  }
}

TEST(Sampler, ExtremeLogitsAndTemperaturesStayDefined) {
  const float most = std::numeric_limits<float>::max();
  for (const double temperature : {1e-6, 1.0, 100.0}) {
    SamplingParams params = seeded();
    params.temperature = temperature;
    params.top_p = 0.5;
    EXPECT_EQ(*pick({-most, most, 0}, params), 1);
    params.repetition_penalty = 0.01;
    EXPECT_EQ(*pick({-most, most, 0}, params, {1}), 1);
  }
}

TEST(Sampler, PresenceAndFrequencyPenaltiesCountTheOutputAlone) {
  SamplingParams params;
  params.temperature = 0;
  params.presence_penalty = 1.5;
  EXPECT_EQ(*pick({5, 4}, params, {0, 0}), 0);         // the prompt does not count
  EXPECT_EQ(*pick({5, 4}, params, {}, {0}), 1);        // 3.5
  EXPECT_EQ(*pick({5, 3}, params, {}, {0, 0, 0}), 0);  // once, however often
  params.presence_penalty = 0, params.frequency_penalty = 0.75;
  EXPECT_EQ(*pick({5, 3}, params, {}, {0, 0}), 0);     // 3.5
  EXPECT_EQ(*pick({5, 3}, params, {}, {0, 0, 0}), 1);  // 2.75
}

TEST(Sampler, LogitBiasMovesAToken) {
  SamplingParams params;
  params.temperature = 0;
  params.logit_bias = {{2, 10.0F}, {0, -1.0F}};
  EXPECT_EQ(*pick({5, 4, 0}, params), 2);
}

TEST(Sampler, EndTokensWaitForTheMinimum) {
  SamplingParams params;
  params.temperature = 0;
  params.min_new_tokens = 2;
  params.stop_token_ids = {1};
  EXPECT_EQ(*pick({9, 8, 7}, params, {}, {2}, {0}), 2);
  EXPECT_EQ(*pick({9, 8, 7}, params, {}, {2, 2}, {0}), 0);
}

TEST(Sampler, ChoicesDrawFromTheirOwnStreams) {
  const std::vector<float> logits = random_logits(1000, 3);
  SamplerScratch scratch(1000);
  SamplingParams other = seeded(1);
  other.choice = 1;
  int equal = 0;
  for (int i = 0; i < 40; ++i) equal += *pick_at(logits, seeded(1), i, scratch) == *pick_at(logits, other, i, scratch) ? 1 : 0;
  EXPECT_LT(equal, 10);
}

TEST(Logprobs, AreTheLogSoftmaxWithTheLikeliestFirst) {
  const std::vector<float> logits = random_logits(500, 9);
  SamplerScratch scratch(500);
  const TokenLogprob got = logprob_of(kernels::table(Isa::kRef), logits, 17, 4, scratch);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  EXPECT_NEAR(got.logprob, logits[17] - std::log(sum), 1e-4);
  std::vector<int> order(500);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  ASSERT_EQ(got.top.size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got.top[i].token, order[i]);
  EXPECT_EQ(logprob_of(kernels::table(Isa::kRef), {std::vector<float>{1, 3, 3}}, 0, 2, scratch).top[0].token, 1);  // ties: lowest id
}

}  // namespace
}  // namespace lamina
