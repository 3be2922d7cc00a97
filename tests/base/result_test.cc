#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/ids.h"
#include "base/strings.h"

namespace lamina {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return error(value, " is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  LAMINA_ASSIGN(const int once, half(value));
  return half(once);
}

Status check_quarter(int value) {
  LAMINA_TRY(quarter(value));
  return {};
}

TEST(Result, ErrorsTravelToTheCaller) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(check_quarter(4).ok());
  EXPECT_EQ(check_quarter(5).error().message, "5 is odd");
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(ResultDeathTest, ReadingTheWrongSideIsACheck) {
  EXPECT_DEATH(static_cast<void>(half(1).value()), "value\\(\\) of an error");
  EXPECT_DEATH(static_cast<void>(half(2).error()), "error\\(\\) of a value");
}

TEST(CheckedCastDeathTest, RefusesValuesThatDoNotFit) {
  EXPECT_EQ(checked_cast<int32_t>(int64_t{-5}), -5);
  EXPECT_EQ(checked_cast<uint8_t>(255), 255);
  EXPECT_DEATH(checked_cast<uint8_t>(256), "narrowing");
  EXPECT_DEATH(checked_cast<uint64_t>(int64_t{-1}), "narrowing");
  EXPECT_DEATH(checked_cast<int32_t>(int64_t{1} << 40), "narrowing");
}

}  // namespace
}  // namespace lamina
