#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

SchedulerConfig small_config() {
  SchedulerConfig config;
  config.kv = {10, 4};
  config.new_token_ratio = config.min_new_token_ratio = 0;
  config.draw_seed = [] { return uint64_t{4711}; };
  return config;
}

SchedulerRequest request(int64_t id, std::optional<uint64_t> seed = {}) {
  SchedulerRequest result;
  result.id = RequestId(id);
  result.prompt = {5, 6, 7};
  result.sampling.seed = seed;
  result.sampling.max_new_tokens = 1000000;
  return result;
}

StepResult answer(const StepPlan& plan, TokenId token) {
  StepResult result;
  result.step = plan.step;
  for (const StepEntry& entry : plan.entries) {
    StepOutput output;
    output.request = entry.request;
    output.token = token;
    result.outputs.push_back(output);
  }
  return result;
}

TEST(Scheduler, DrawsASeedForARequestWithoutOne) {
  Scheduler scheduler(small_config());
  ASSERT_TRUE(scheduler.submit(request(1)).ok());
  ASSERT_TRUE(scheduler.submit(request(2, 99)).ok());
  StepPlan plan;
  scheduler.next_step(plan);
  ASSERT_EQ(plan.admitted.size(), 2U);
  EXPECT_EQ(plan.admitted[0].sampling.seed, 4711U);
  EXPECT_EQ(plan.admitted[1].sampling.seed, 99U);
  EXPECT_EQ(plan.admitted[0].prompt, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(scheduler.sampling(RequestId(1))->seed, 4711U);
  EXPECT_EQ(scheduler.sampling(RequestId(1))->max_new_tokens, 37) << "cut to what the pool leaves";
  EXPECT_EQ(scheduler.sampling(RequestId(3)), nullptr);
}

TEST(Scheduler, TellsTheTokensOfLiveRequestsOnly) {
  Scheduler scheduler(small_config());
  SchedulerRequest short_request = request(1);
  short_request.sampling.max_new_tokens = 2;
  ASSERT_TRUE(scheduler.submit(short_request).ok());
  EXPECT_EQ(scheduler.waiting(), 1);
  StepPlan plan;
  std::vector<RequestEvent> events;
  scheduler.next_step(plan);
  scheduler.complete(answer(plan, 8), events);
  EXPECT_EQ(scheduler.running(), 1);
  EXPECT_EQ(*scheduler.tokens(RequestId(1)), (std::vector<TokenId>{5, 6, 7, 8}));
  scheduler.next_step(plan);
  scheduler.complete(answer(plan, 9), events);
  EXPECT_EQ(scheduler.tokens(RequestId(1)), nullptr);
  EXPECT_FALSE(scheduler.idle()) << "the runner is still to be told";
}

TEST(Scheduler, RequestTheRunnerGivesUpEndsAloneWithItsError) {
  Scheduler scheduler(small_config());
  ASSERT_TRUE(scheduler.submit(request(1)).ok());
  ASSERT_TRUE(scheduler.submit(request(2)).ok());
  StepPlan plan;
  scheduler.next_step(plan);
  StepResult result = answer(plan, 8);
  result.outputs[0].token.reset();
  result.outputs[0].error = "no number";
  std::vector<RequestEvent> events;
  scheduler.complete(result, events);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].finish, FinishReason::kAbort);
  EXPECT_EQ(events[0].error, "no number");
  EXPECT_FALSE(events[0].token.has_value());
  EXPECT_EQ(events[1].finish, FinishReason::kNone);
  EXPECT_EQ(scheduler.running(), 1);
}

TEST(Scheduler, BalancesNewRequestsOverTheDpRanks) {
  SchedulerConfig config = small_config();
  config.kv = {100, 4};
  config.dp_ranks = 3;
  Scheduler scheduler(config);
  for (int64_t id = 1; id <= 9; ++id) ASSERT_TRUE(scheduler.submit(request(id)).ok());
  StepPlan plan;
  scheduler.next_step(plan);
  ASSERT_EQ(plan.entries.size(), 9U);
  std::vector<int> entries(3);
  for (const StepEntry& entry : plan.entries) ++entries[static_cast<size_t>(entry.dp_rank)];
  EXPECT_EQ(entries, (std::vector<int>{3, 3, 3}));
  for (int dp_rank = 0; dp_rank < 3; ++dp_rank) EXPECT_EQ(scheduler.pages(dp_rank).held, 3);
  EXPECT_EQ(scheduler.pages().held, 9);
  EXPECT_EQ(scheduler.pages().total, 300);
}

TEST(Scheduler, AnOnlyPoolLimitsWhatMayBeSubmitted) {
  SchedulerConfig config = small_config();
  config.dp_ranks = 4;
  Scheduler scheduler(config);
  SchedulerRequest large = request(1);
  large.prompt.assign(41, 5);
  const Status status = scheduler.submit(large);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("holds 40"), std::string::npos) << status.error().message;
}

TEST(SchedulerDeathTest, PlansBeginAndCompleteInOrder) {
  SchedulerConfig config = small_config();
  config.plans_in_flight = 2;
  config.chunked_prefill_size = 3;
  Scheduler scheduler(config);
  for (int64_t id = 1; id <= 3; ++id) ASSERT_TRUE(scheduler.submit(request(id)).ok());
  StepPlan first, second, third;
  scheduler.next_step(first);
  scheduler.next_step(second);
  std::vector<RequestEvent> events;
  EXPECT_DEATH(scheduler.next_step(third), "in flight");
  EXPECT_DEATH(scheduler.complete(answer(second, 1), events), "another step");
  EXPECT_DEATH(scheduler.finish(RequestId(1)), "in flight");
  EXPECT_DEATH((void)scheduler.submit(request(1)), "used twice");
}

}  // namespace
}  // namespace lamina
