#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace lamina {
namespace {

/// What a client sees when `text` arrives in pieces of `size` bytes.
std::pair<std::string, std::string> stream(const std::string& text, size_t size, const std::vector<std::string>& stops) {
  StopMatcher matcher(stops);
  std::string seen;
  for (size_t at = 0; at < text.size(); at += size) {
    StopMatcher::Output out = matcher.feed(text.substr(at, size));
    seen += out.text;
    if (out.matched) return {seen, *out.matched};
  }
  return {seen + matcher.flush(), ""};
}

TEST(StopMatcher, CutsBeforeAStopStringOverSeveralPieces) {
  for (size_t size = 1; size <= 12; ++size) {
    EXPECT_EQ(stream("ABCDEFGHIJKL", size, {"DEFGHIJ"}), std::pair(std::string("ABC"), std::string("DEFGHIJ"))) << size;
  }
}

TEST(StopMatcher, CutsInsideThePieceThatCompletesIt) {
  EXPECT_EQ(stream("please stop! now", 16, {"stop"}), std::pair(std::string("please "), std::string("stop")));
}

TEST(StopMatcher, GivesBackWhatOnlyLookedLikeAStop) {
  EXPECT_EQ(stream("ab ab abc", 1, {"abcd"}).first, "ab ab abc");
  EXPECT_EQ(stream("aaab", 1, {"aab"}), std::pair(std::string("a"), std::string("aab")));
}

TEST(StopMatcher, TheEarliestEndWinsAndThenTheLongest) {
  EXPECT_EQ(stream("xxhello", 7, {"hello", "ell"}), std::pair(std::string("xxh"), std::string("ell")));
  EXPECT_EQ(stream("xxhello", 7, {"llo", "hello"}), std::pair(std::string("xx"), std::string("hello")));
}

TEST(StopMatcher, EmptyStopsNeverMatch) { EXPECT_EQ(stream("abc", 1, {""}), std::pair(std::string("abc"), std::string())); }

TEST(StopMatcher, AnyCutOfATextGivesTheSameAnswer) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += "ab"[random() % 2];
    std::vector<std::string> stops;
    for (int s = 0; s < 3; ++s) {
      std::string stop;
      for (size_t i = 0; i < 2 + random() % 6; ++i) stop += "ab"[random() % 2];
      stops.push_back(stop);
    }
    const auto bytewise = stream(text, 1, stops);
    for (size_t size = 2; size < 31; ++size) EXPECT_EQ(stream(text, size, stops), bytewise) << text << ' ' << size;
  }
}

}  // namespace
}  // namespace lamina
