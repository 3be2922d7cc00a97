// Pages and contexts out of the memory that ranks share.

#include "plan/memory.h"

#include <gmock/gmock.h>

#include "tests/plan/support.h"

namespace lamina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

MemoryPlan rank_of(size_t weights, int64_t kv_bytes_per_token) {
  return {.weight_bytes = weights, .step_bytes = 100, .stage_bytes = 50, .kv_bytes_per_token = kv_bytes_per_token, .context_length = 4096};
}

MemoryRequest request_of(uint64_t available) {
  MemoryRequest request;
  request.available = available;
  request.mem_fraction_static = 0.5;
  request.page_size = 16;
  request.context_length = 4096;
  return request;
}

TEST(Memory, RanksOfOneProcessShareItAndGetEqualPages) {
  MemoryPlan ranks[] = {rank_of(1000, 10), rank_of(600, 30)};
  ASSERT_TRUE(plan_pages(ranks, request_of(1600 + 400 + 2 * 40 * 160)).ok());
  for (const MemoryPlan& rank : ranks) {
    EXPECT_EQ(rank.pages, 10);
    EXPECT_EQ(rank.largest_context(), 160);
  }
  EXPECT_EQ(ranks[1].kv_bytes(), 160U * 30);
}

TEST(Memory, TheModelsContextLimitsARequestWhereThePoolDoesNot) {
  MemoryPlan rank = rank_of(0, 1);
  ASSERT_TRUE(plan_pages({&rank, 1}, request_of(1 << 20)).ok());
  EXPECT_GT(rank.kv_tokens(), 4096);
  EXPECT_EQ(rank.largest_context(), 4096);
}

TEST(Memory, PoolIsNoLargerThanAllRequestsOrTheFlagAllow) {
  MemoryPlan rank = rank_of(0, 1);
  MemoryRequest request = request_of(uint64_t{1} << 40);
  request.max_running_requests = 2;
  ASSERT_TRUE(plan_pages({&rank, 1}, request).ok());
  EXPECT_EQ(rank.kv_tokens(), 2 * (4096 + 16));
  request.max_total_tokens = 1000;
  ASSERT_TRUE(plan_pages({&rank, 1}, request).ok());
  EXPECT_EQ(rank.kv_tokens(), 992);
}

TEST(Memory, ErrorsNameWhatTheRanksNeedAndWhatThereIs) {
  MemoryPlan ranks[] = {rank_of(1000, 10), rank_of(600, 30)};
  EXPECT_THAT(plan_pages(ranks, request_of(1900)).error().message,
              AllOf(HasSubstr("weights of 2 ranks need 1.60 kB"), HasSubstr("400 B"), HasSubstr("available are 1.90 kB")));
  EXPECT_THAT(plan_pages(ranks, request_of(2010)).error().message,
              AllOf(HasSubstr("no room for a KV cache"), HasSubstr("of 2 ranks takes 640 B"), HasSubstr("--mem-fraction-static")));
  EXPECT_THAT(plan_pages({ranks, 1}, request_of(1000)).error().message, HasSubstr("weights need 1.00 kB"));
}

TEST(Memory, LargestStepCountsThePaddingOfAttentionRanks) {
  EXPECT_EQ(largest_step(512, 256, 1, "auto"), 512);
  EXPECT_EQ(largest_step(512, 256, 4, "ragged"), 512);
  EXPECT_EQ(largest_step(512, 256, 4, "padded"), 2048);
  EXPECT_EQ(largest_step(512, 400, 4, "auto"), 800);
  EXPECT_EQ(largest_step(128, 256, 1, "auto"), 256);
}

}  // namespace
}  // namespace lamina
