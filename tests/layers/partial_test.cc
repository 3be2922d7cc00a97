#include "layers/partial.h"

#include <gtest/gtest.h>

#include <utility>

namespace lamina {
namespace {

// The errors in using a Partial that a compiler can see are in partial_*_compile_fail.cc.
struct Sum {
  float value = 2.0F;
  ParallelGroups groups = ParallelGroups::single();
  Partial partial() { return {F32View(&value, 1, 1), *groups.find("tp").value()}; }
};

TEST(Partial, ReducingConsumesIt) {
  Sum sum;
  EXPECT_EQ(PartialAccess::reduce(sum.partial()).at(0, 0), 2.0F);
}

TEST(Partial, MovingHandsTheDebtOn) {
  Sum sum;
  Partial first = sum.partial();
  Partial second = std::move(first);
  EXPECT_EQ(PartialAccess::reduce(std::move(second)).data, &sum.value);
}

TEST(PartialDeathTest, DroppingOneUnreducedDies) {
  Sum sum;
  EXPECT_DEATH({ const Partial dropped = sum.partial(); }, "dropped unreduced");
}

// clang-tidy's use-after-move finds these two in ordinary code.
TEST(PartialDeathTest, ReducingOneTwiceDies) {
  Sum sum;
  Partial partial = sum.partial();
  (void)PartialAccess::reduce(std::move(partial));
  EXPECT_DEATH((void)PartialAccess::reduce(std::move(partial)), "consumed twice");  // NOLINT(bugprone-use-after-move)
}

TEST(PartialDeathTest, ReducingAMovedFromOneDies) {
  Sum sum;
  Partial first = sum.partial();
  Partial second = std::move(first);
  EXPECT_DEATH((void)PartialAccess::reduce(std::move(first)), "consumed twice");  // NOLINT(bugprone-use-after-move)
  (void)PartialAccess::consume(std::move(second));
}

}  // namespace
}  // namespace lamina
