#include "api/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lamina {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  const char* name;
  void (*set)(SamplingParams&, double);
  std::vector<double> good, bad;
  const char* range;
};

const Case kCases[] = {
    {"temperature", [](SamplingParams& p, double v) { p.temperature = v; }, {0, 1e-7, 10, 100}, {-1, kNan, 1e308, -1e-9}, "[0, 100]"},
    {"top_p", [](SamplingParams& p, double v) { p.top_p = v; }, {1e-9, 1}, {0, -0.5, 1.01, kNan}, "(0, 1]"},
    {"min_p", [](SamplingParams& p, double v) { p.min_p = v; }, {0, 1}, {-0.1, 1.1, kNan}, "[0, 1]"},
    {"repetition_penalty", [](SamplingParams& p, double v) { p.repetition_penalty = v; }, {0.1, 2}, {0, -1, kNan, 1e308}, "(0, 2]"},
    {"top_k",
     [](SamplingParams& p, double v) { p.top_k = static_cast<int>(v); },
     {-1, 1, 2e9},
     {0, -2},
     "-1 (whole vocabulary) or at least 1"},
    {"max_new_tokens", [](SamplingParams& p, double v) { p.max_new_tokens = static_cast<int>(v); }, {0, 2e9}, {-1}, "at least 0"},
    {"stop_token_ids", [](SamplingParams& p, double v) { p.stop_token_ids = {1, static_cast<int>(v)}; }, {0, 258}, {-1, 259}, "[0, 259)"},
};

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(validate({}, 259).ok()); }

TEST(SamplingParams, EachFieldHasItsRangeAndTheErrorNamesBoth) {
  for (const Case& c : kCases) {
    for (const double value : c.good) {
      SamplingParams params;
      c.set(params, value);
      EXPECT_TRUE(validate(params, 259).ok()) << c.name << " " << value;
    }
    for (const double value : c.bad) {
      SamplingParams params;
      c.set(params, value);
      const Status status = validate(params, 259);
      ASSERT_FALSE(status.ok()) << c.name << " " << value;
      EXPECT_THAT(status.error().message, HasSubstr(c.name));
      EXPECT_THAT(status.error().message, HasSubstr(c.range));
    }
  }
}

}  // namespace
}  // namespace lamina
