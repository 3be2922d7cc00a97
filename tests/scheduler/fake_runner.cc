#include "tests/scheduler/fake_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "scheduler/step_codec.h"

namespace lamina::testing {

namespace {

uint64_t mix(uint64_t x) {  // finaliser of splitmix64
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t kv_value(TokenId token, int64_t position, int64_t rope_length) {
  return mix(mix(mix(static_cast<uint64_t>(token)) + static_cast<uint64_t>(position)) + static_cast<uint64_t>(rope_length));
}
uint64_t fold(uint64_t state, uint64_t value) { return (state ^ value) * 0x100000001B3U + 1; }
float logits_of(uint64_t state) { return static_cast<float>(mix(state) >> 44); }
TokenId token_of(uint64_t state, uint64_t seed, int64_t output_position, int vocab) {
  return static_cast<TokenId>(mix(state + mix(seed + static_cast<uint64_t>(output_position))) % static_cast<uint64_t>(vocab));
}

FakeRunner::FakeRunner(const SchedulerConfig& config, int vocab) : config_(config), vocab_(vocab) {
  uses_.resize(static_cast<size_t>(config.dp_ranks) * static_cast<size_t>(config.kv.pages + 1));
  slots_.resize(uses_.size() * static_cast<size_t>(config.kv.page_size));
}

FakeRunner::PageUse& FakeRunner::use(int dp_rank, PageId page) {
  return uses_[static_cast<size_t>(dp_rank * int64_t{config_.kv.pages + 1} + page.value)];
}

uint64_t& FakeRunner::slot(int dp_rank, PageId page, int64_t offset) {
  return slots_[static_cast<size_t>((dp_rank * int64_t{config_.kv.pages + 1} + page.value) * config_.kv.page_size + offset)];
}

void FakeRunner::check_layout(const StepPlan& plan) {
  EXPECT_LE(std::ssize(plan.tokens), config_.max_step_tokens());
  EXPECT_LE(std::ssize(plan.entries), config_.max_running_requests);
  bool prefill_seen = false, decode_seen = false;
  int64_t token_end = 0, page_end = 0;
  for (const StepEntry& entry : plan.entries) {
    ASSERT_TRUE(entry.dp_rank >= 0 && entry.dp_rank < config_.dp_ranks);
    EXPECT_EQ(entry.token_begin, token_end);
    EXPECT_EQ(entry.page_begin, page_end);
    EXPECT_GE(entry.token_count, 1);
    EXPECT_EQ(entry.page_count, (entry.prefix_len + entry.token_count + config_.kv.page_size - 1) / config_.kv.page_size);
    token_end += entry.token_count, page_end += entry.page_count;
    const bool decode = entry.token_count == 1 && entry.prefix_len > 0 && entry.sample;
    decode_seen |= decode;
    prefill_seen |= !decode;
  }
  EXPECT_EQ(std::ssize(plan.tokens), token_end);
  EXPECT_EQ(std::ssize(plan.pages), page_end);
  for (const PageId page : plan.pages) ASSERT_TRUE(page.value >= 1 && page.value <= config_.kv.pages);
  mixed_steps_ += prefill_seen && decode_seen ? 1 : 0;
}

void FakeRunner::check_history(const StepPlan& plan, const StepEntry& entry) {
  ASSERT_TRUE(states_.contains(entry.request)) << "request " << entry.request.value << " was never admitted";
  State& state = states_.at(entry.request);
  EXPECT_FALSE(std::exchange(state.in_flight, true)) << "request " << entry.request.value << " is in two plans";
  rebound_ += state.dp_rank >= 0 && state.dp_rank != entry.dp_rank ? 1 : 0;
  state.dp_rank = entry.dp_rank;
  EXPECT_LE(entry.prefix_len, std::ssize(state.tokens));
  for (int64_t i = 0; i < entry.token_count; ++i) {
    const TokenId token = plan.tokens[static_cast<size_t>(entry.token_begin + i)];
    const auto position = static_cast<size_t>(entry.prefix_len + i);
    if (position == state.tokens.size()) state.tokens.push_back(token);
    ASSERT_EQ(state.tokens.at(position), token) << "a token changed";
  }
}

void FakeRunner::count_uses(const StepPlan& plan, int by) {
  for (const StepEntry& entry : plan.entries) {
    for (int64_t p = 0; p < entry.page_count; ++p) {
      PageUse& page = use(entry.dp_rank, plan.pages[static_cast<size_t>(entry.page_begin + p)]);
      (p < entry.prefix_len / config_.kv.page_size ? page.readers : page.writers) += by;
    }
  }
  for (const PageCopy& copy : plan.copies) use(copy.dp_rank, copy.from).readers += by;
}

/// Pages may be read by several, but one that is written is used by no other entry or copy of the plans in flight: nothing is read before
/// it was computed, and nothing is overwritten while it is read.
void FakeRunner::check_uses(const StepPlan& plan) {
  for (const StepEntry& entry : plan.entries) {
    for (int64_t p = 0; p < entry.page_count; ++p) {
      const PageId page = plan.pages[static_cast<size_t>(entry.page_begin + p)];
      const bool writes = p >= entry.prefix_len / config_.kv.page_size;
      EXPECT_EQ(use(entry.dp_rank, page).writers, writes ? 1 : 0) << "page " << page.value << " is written by another";
      EXPECT_TRUE(!writes || use(entry.dp_rank, page).readers == 0) << "page " << page.value << " is written and read by another";
    }
  }
  for (const PageCopy& copy : plan.copies) {
    EXPECT_EQ(use(copy.dp_rank, copy.from).writers, 0) << "page " << copy.from.value << " is copied and written by another";
    EXPECT_EQ(use(copy.dp_rank, copy.to).writers, 1) << "page " << copy.to.value << " is copied to and not one request's";
    EXPECT_TRUE(copy.tokens >= 1 && copy.tokens < config_.kv.page_size);
  }
}

void FakeRunner::begin(const StepPlan& plan) {
  StepPlan mine;
  if (!spare_.empty()) {
    mine = std::move(spare_.back());
    spare_.pop_back();
  }
  encode(plan, bytes_);
  ASSERT_TRUE(decode(bytes_, mine).ok());
  ASSERT_LT(in_flight(), config_.plans_in_flight);
  EXPECT_TRUE(plans_.empty() || mine.step == plans_.back().step + 1);
  check_layout(mine);
  for (const RequestId id : mine.released) {
    const auto state = states_.find(id);
    if (state == states_.end()) continue;
    EXPECT_FALSE(state->second.in_flight) << "released in flight";
    states_.erase(state);
  }
  for (StepAdmission& admission : mine.admitted) {
    EXPECT_TRUE(admission.sampling.seed.has_value());
    State state{.seed = admission.sampling.seed.value_or(0), .tokens = std::move(admission.prompt)};
    EXPECT_TRUE(states_.emplace(admission.request, std::move(state)).second) << "admitted twice";
  }
  for (const StepEntry& entry : mine.entries) check_history(mine, entry);
  count_uses(mine, 1);
  check_uses(mine);
  plans_.push_back(std::move(mine));
}

void FakeRunner::copy_pages(const StepPlan& plan) {
  for (const PageCopy& copy : plan.copies) {
    const uint64_t* from = &slot(copy.dp_rank, copy.from, 0);
    std::copy(from, from + copy.tokens, &slot(copy.dp_rank, copy.to, 0));
    ++page_copies_;
  }
}

StepOutput FakeRunner::compute(const StepPlan& plan, const StepEntry& entry) {
  StepOutput output;
  output.request = entry.request;
  State& state = states_.at(entry.request);
  state.in_flight = false;
  const auto at = [&](int64_t position) -> uint64_t& {
    const PageId page = plan.pages[static_cast<size_t>(entry.page_begin + position / config_.kv.page_size)];
    return slot(entry.dp_rank, page, position % config_.kv.page_size);
  };
  const int64_t end = entry.prefix_len + entry.token_count;
  for (int64_t p = entry.prefix_len; p < end; ++p)
    at(p) = kv_value(plan.tokens[static_cast<size_t>(entry.token_begin + p - entry.prefix_len)], p, entry.rope_length);
  uint64_t attention = 0;
  for (int64_t p = 0; p < end; ++p) {
    attention = fold(attention, at(p));
    if (entry.all_logits && p >= entry.prefix_len) output.prompt_logits.push_back(logits_of(attention));
  }
  if (entry.sample) output.token = token_of(attention, state.seed, state.outputs++, vocab_);
  if (entry.pool) output.embedding = {logits_of(attention)};
  recomputed_tokens_ += std::min<int64_t>(end, state.computed) - std::min(entry.prefix_len, state.computed);
  state.computed = std::max(state.computed, end);
  return output;
}

void FakeRunner::finish(StepResult& result) {
  ASSERT_FALSE(plans_.empty());
  StepPlan plan = std::move(plans_.front());
  plans_.pop_front();
  copy_pages(plan);
  result.step = plan.step;
  result.outputs.clear();
  for (const StepEntry& entry : plan.entries) result.outputs.push_back(compute(plan, entry));
  count_uses(plan, -1);
  spare_.push_back(std::move(plan));
}

}  // namespace lamina::testing
