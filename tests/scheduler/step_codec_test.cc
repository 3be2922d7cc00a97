#include "scheduler/step_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace lamina {
namespace {

using Bytes = std::vector<std::byte>;

/// Random values; every field is set, so that one that is not encoded makes a round trip unequal.
class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  StepPlan plan() {
    StepPlan plan;
    plan.step = number<int64_t>();
    plan.admitted = list([&] { return StepAdmission{RequestId(number<int64_t>()), sampling(), numbers<int32_t>()}; });
    plan.released = list([&] { return RequestId(number<int64_t>()); });
    plan.copies = list([&] { return PageCopy{page(), page(), number<int32_t>(), number<int32_t>()}; });
    plan.entries = list([&] { return entry(); });
    plan.tokens = numbers<int32_t>();
    plan.pages = list([&] { return page(); });
    return plan;
  }

  StepResult result() {
    StepResult result;
    result.step = number<int64_t>();
    result.fault = text();
    result.outputs = list([&] { return output(); });
    return result;
  }

 private:
  template <class T>
  T number() {
    return static_cast<T>((static_cast<uint64_t>(random_()) << 32) | random_());
  }
  bool flag() { return random_() % 2 == 0; }
  float real() { return static_cast<float>(random_()) / 3.0F; }
  PageId page() { return PageId(number<int32_t>()); }
  std::string text() {
    std::string text(random_() % 9, '\0');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }
  template <class Make>
  std::vector<std::invoke_result_t<const Make&>> list(const Make& make) {
    std::vector<std::invoke_result_t<const Make&>> values(random_() % 4);
    for (auto& value : values) value = make();
    return values;
  }
  template <class T>
  std::vector<T> numbers() {
    return list([&] { return number<T>(); });
  }
  std::vector<float> reals() {
    return list([&] { return real(); });
  }

  SamplingParams sampling() {
    SamplingParams params;
    params.max_new_tokens = number<int>();
    params.min_new_tokens = number<int>();
    params.temperature = real();
    params.top_p = real();
    params.top_k = number<int>();
    params.min_p = real();
    params.repetition_penalty = real();
    params.presence_penalty = -real();
    params.frequency_penalty = real();
    params.logit_bias = list([&] { return LogitBias{number<int32_t>(), real()}; });
    params.ignore_eos = flag();
    params.stop_token_ids = numbers<int32_t>();
    params.stop = list([&] { return text(); });
    if (flag()) params.seed = number<uint64_t>();
    params.choice = number<int>();
    params.top_logprobs = number<int>();
    params.prompt_logprobs = flag();
    return params;
  }

  StepEntry entry() {
    StepEntry entry;
    entry.request = RequestId(number<int64_t>());
    entry.dp_rank = number<int32_t>();
    entry.token_begin = number<int32_t>(), entry.token_count = number<int32_t>();
    entry.page_begin = number<int32_t>(), entry.page_count = number<int32_t>();
    entry.prefix_len = number<int64_t>();
    entry.rope_length = number<int64_t>();
    entry.sample = flag(), entry.all_logits = flag(), entry.prompt_logprobs = flag(), entry.pool = flag();
    return entry;
  }

  TokenLogprob logprob() {
    return {number<int32_t>(), -real(), list([&] { return TokenLogprob::Alternative{number<int32_t>(), real()}; })};
  }

  StepOutput output() {
    StepOutput output;
    output.request = RequestId(number<int64_t>());
    if (flag()) output.token = number<int32_t>();
    if (flag()) output.logprob = logprob();
    output.prompt_logprobs = list([&] { return logprob(); });
    output.prompt_logits = reals();
    output.embedding = reals();
    output.captured = list([&] { return reals(); });
    output.error = text();
    return output;
  }

  std::mt19937 random_;
};

template <class T>
Bytes encoded(const T& value) {
  Bytes bytes;
  encode(value, bytes);
  return bytes;
}

/// Calls `check` with random plans and results, and with a value of the same type that holds something else.
template <class Check>
void for_random_values(uint32_t seeds, const Check& check) {
  for (uint32_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Maker maker(seed);
    check(maker.plan(), maker.plan());
    check(maker.result(), maker.result());
  }
}

TEST(StepCodec, RoundTripsEveryFieldOverWhateverWasThere) {
  for_random_values(500, [](const auto& value, auto other) {
    ASSERT_TRUE(decode(encoded(value), other).ok());
    EXPECT_EQ(other, value);
  });
}

TEST(StepCodec, BytesAreFixed) {
  const StepResult result{.step = 0x0102, .fault = "ab", .outputs = {}};
  const std::vector<uint8_t> expected = {'1', 'R', 'E', 'S', 2, 1,   0,   0, 0, 0, 0, 0, 2, 0, 0,
                                         0,   0,   0,   0,   0, 'a', 'b', 0, 0, 0, 0, 0, 0, 0, 0};
  std::vector<uint8_t> bytes;
  for (const std::byte byte : encoded(result)) bytes.push_back(std::to_integer<uint8_t>(byte));
  EXPECT_EQ(bytes, expected);
}

TEST(StepCodec, KeepsNumbersThatAreNotNumbersToTheBit) {
  StepResult result;
  result.outputs.resize(1);
  result.outputs[0].prompt_logits = {std::nanf("1"), -std::numeric_limits<float>::infinity(), -0.0F};
  StepResult back;
  ASSERT_TRUE(decode(encoded(result), back).ok());
  EXPECT_EQ(encoded(back), encoded(result));
  EXPECT_TRUE(std::isnan(back.outputs[0].prompt_logits[0]));
}

TEST(StepCodec, RefusesEveryTruncationAndWhatRunsOn) {
  for_random_values(60, [](const auto& value, auto other) {
    Bytes bytes = encoded(value);
    for (size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(decode(std::span(bytes).first(size), other).ok()) << size << " of " << bytes.size();
    }
    bytes.push_back(std::byte{0});
    const Status status = decode(bytes, other);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("1 too many"), std::string::npos) << status.error().message;
  });
}

TEST(StepCodec, RefusesTheOtherKindAndLyingLengths) {
  StepPlan plan;
  StepResult result;
  EXPECT_FALSE(decode(encoded(plan), result).ok());
  EXPECT_FALSE(decode(encoded(result), plan).ok());

  result.fault = "abc";
  const Bytes good = encoded(result);
  for (const uint64_t length : {uint64_t{0}, uint64_t{2}, uint64_t{4}, uint64_t{12}, uint64_t{1} << 32, uint64_t{1} << 62, ~uint64_t{0}}) {
    Bytes bytes = good;
    for (size_t i = 0; i < 8; ++i) bytes[12 + i] = static_cast<std::byte>(length >> (8 * i));
    EXPECT_FALSE(decode(bytes, result).ok()) << length;
  }
}

/// Whatever the bytes: refused, or the value whose encoding they are.
TEST(StepCodec, DamagedBytesAreRefusedOrAnotherValue) {
  std::mt19937 random(7);
  int refused = 0;
  for_random_values(200, [&](const auto& value, auto other) {
    const Bytes good = encoded(value);
    for (int i = 0; i < 40; ++i) {
      Bytes bytes = good;
      const size_t at = random() % bytes.size(), count = random() % 8 + 1;
      for (size_t b = at; b < std::min(at + count, bytes.size()); ++b) bytes[b] = static_cast<std::byte>(i % 2 == 0 ? 0xFF : random());
      if (decode(bytes, other).ok())
        ASSERT_EQ(encoded(other), bytes);
      else
        ++refused;
    }
  });
  EXPECT_GE(refused, 1000);
}

}  // namespace
}  // namespace lamina
