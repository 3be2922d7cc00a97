#include "base/strings.h"

#include <gtest/gtest.h>

#include <limits>

namespace lamina {
namespace {

TEST(Strings, CatJoinsTextCharactersAndNumbers) {
  const std::string name = "q_proj";
  EXPECT_EQ(cat("tensor ", name, ':', ' ', 3, " rows, ", uint64_t{18446744073709551615U}, " bytes, ", int8_t{-1}),
            "tensor q_proj: 3 rows, 18446744073709551615 bytes, -1");
  EXPECT_EQ(cat(), "");
}

TEST(Strings, NumbersAreShortestThatReadBackEqual) {
  EXPECT_EQ(cat(0.1, ' ', 0.1F, ' ', 1e-7, ' ', 2.0), "0.1 0.1 1e-07 2");
  EXPECT_EQ(cat(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
}

TEST(Strings, ErrorHoldsTheWholeMessage) { EXPECT_EQ(error("flag --tp is ", 3).message, "flag --tp is 3"); }

TEST(Strings, SplitKeepsEmptyPartsAndJoinUndoesIt) {
  EXPECT_EQ(split("a..b.", '.'), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(split("", '.'), std::vector<std::string>{""});
  EXPECT_EQ(join(split("a..b.", '.'), "."), "a..b.");
  EXPECT_EQ(join({}, ", "), "");
}

TEST(Strings, ShapesPrintInBrackets) {
  EXPECT_EQ(shape_string({2048, 8192}), "[2048, 8192]");
  EXPECT_EQ(shape_string({}), "[]");
}

}  // namespace
}  // namespace lamina
