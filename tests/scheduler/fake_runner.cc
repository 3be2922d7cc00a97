#include "tests/scheduler/fake_runner.h"

#include <gtest/gtest.h>

#include <algorithm>

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

FakeRunner::FakeRunner(const SchedulerConfig& config, int vocab)
    : config_(config), vocab_(vocab), slots_(static_cast<size_t>(config.kv.pages + 1) * static_cast<size_t>(config.kv.page_size)) {}

void FakeRunner::check_plan(const StepPlan& plan) {
  EXPECT_LE(std::ssize(plan.tokens), config_.max_step_tokens());
  EXPECT_LE(std::ssize(plan.entries), config_.max_running_requests);
  bool prefill_seen = false, decode_seen = false;
  int64_t token_end = 0, page_end = 0;
  for (const StepEntry& entry : plan.entries) {
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
  check_written_pages(plan);
  mixed_steps_ += prefill_seen && decode_seen ? 1 : 0;
}

/// Pages may be read by several entries, but the ones that an entry writes occur in no other.
void FakeRunner::check_written_pages(const StepPlan& plan) {
  for (const StepEntry& entry : plan.entries) {
    for (int64_t p = entry.prefix_len / config_.kv.page_size; p < entry.page_count; ++p) {
      const PageId page = plan.pages[static_cast<size_t>(entry.page_begin + p)];
      EXPECT_EQ(std::count(plan.pages.begin(), plan.pages.end(), page), 1) << "page " << page.value << " is written and read by another";
    }
  }
}

void FakeRunner::copy_pages(const StepPlan& plan) {
  const auto page_size = static_cast<size_t>(config_.kv.page_size);
  for (const PageCopy& copy : plan.copies) {
    EXPECT_TRUE(copy.tokens >= 1 && copy.tokens < config_.kv.page_size + (config_.kv.page_size == 1 ? 1 : 0));
    const auto from = slots_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(copy.from.value) * page_size);
    std::copy(from, from + copy.tokens, slots_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(copy.to.value) * page_size));
    ++page_copies_;
  }
}

StepOutput FakeRunner::compute(const StepPlan& plan, const StepEntry& entry) {
  StepOutput output;
  output.request = entry.request;
  State& state = states_.at(entry.request);
  const auto slot = [&](int64_t position) -> uint64_t& {
    const PageId page = plan.pages[static_cast<size_t>(entry.page_begin + position / config_.kv.page_size)];
    return slots_[static_cast<size_t>(page.value * int64_t{config_.kv.page_size} + position % config_.kv.page_size)];
  };
  const int64_t end = entry.prefix_len + entry.token_count;
  for (int64_t p = entry.prefix_len; p < end; ++p)
    slot(p) = kv_value(plan.tokens[static_cast<size_t>(entry.token_begin + p - entry.prefix_len)], p, entry.rope_length);
  uint64_t attention = 0;
  for (int64_t p = 0; p < end; ++p) {
    attention = fold(attention, slot(p));
    if (entry.all_logits && p >= entry.prefix_len) output.prompt_logits.push_back(logits_of(attention));
  }
  if (entry.sample) output.token = token_of(attention, state.seed, state.outputs++, vocab_);
  if (entry.pool) output.embedding = {logits_of(attention)};
  recomputed_tokens_ += std::min<int64_t>(end, state.computed) - std::min(entry.prefix_len, state.computed);
  state.computed = std::max(state.computed, end);
  return output;
}

void FakeRunner::run(const StepPlan& plan, StepResult& result) {
  check_plan(plan);
  copy_pages(plan);
  for (const RequestId id : plan.released) states_.erase(id);
  for (const StepAdmission& admission : plan.admitted) {
    EXPECT_TRUE(admission.sampling.seed.has_value());
    EXPECT_TRUE(states_.emplace(admission.request, State{admission.sampling.seed.value_or(0)}).second) << "admitted twice";
  }
  result.step = plan.step;
  result.outputs.clear();
  for (const StepEntry& entry : plan.entries) {
    if (states_.contains(entry.request))
      result.outputs.push_back(compute(plan, entry));
    else
      ADD_FAILURE() << "request " << entry.request.value << " was never admitted";
  }
}

}  // namespace lamina::testing
