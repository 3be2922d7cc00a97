#include "base/crowding.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const Crowding::Time kStart{std::chrono::hours(1)};

TEST(Crowding, IsALongWaitForThreadsThatDidNotRun) {
  EXPECT_TRUE(Crowding::is_crowded(milliseconds(3), milliseconds(1)));
  EXPECT_FALSE(Crowding::is_crowded(milliseconds(3), milliseconds(2)));    // they computed
  EXPECT_FALSE(Crowding::is_crowded(microseconds(100), microseconds(0)));  // as long as a wake-up
}

/// Milliseconds until the team gives up, of waits of `wait` ms with `between` ms of work before each; -1: within a minute it does not.
int gives_up_after(int threads, int wait, int between) {
  Crowding crowding(threads);
  for (int ms = 0; ms < 60000;) {
    ms += between + wait;
    crowding.crowded(kStart + milliseconds(ms), milliseconds(wait));
    if (crowding.alone(kStart + milliseconds(ms))) return ms;
  }
  return -1;
}

TEST(Crowding, AClientThatReadsItsAnswerAfterEachStepIsBorne) {
  EXPECT_EQ(gives_up_after(2, 2, 28), -1);
  EXPECT_EQ(gives_up_after(2, 4, 10), -1);
  EXPECT_EQ(gives_up_after(2, 8, 60), -1);
}

TEST(Crowding, ANeighbourThatNeverSleepsIsNot) {
  EXPECT_EQ(gives_up_after(2, 12, 1), 13);
  EXPECT_GT(gives_up_after(2, 4, 3), 0);
  EXPECT_LT(gives_up_after(2, 4, 3), 200);
}

TEST(Crowding, ManyThreadsBearMoreBecauseOneAloneWouldLoseMore) {
  EXPECT_GT(gives_up_after(2, 3, 2), 0);
  EXPECT_EQ(gives_up_after(16, 3, 2), -1);
  EXPECT_GT(gives_up_after(16, 30, 2), 0);
}

TEST(Crowding, PausesGrowWhileTriesFailAndBeginAnewAfterACalm) {
  Crowding crowding(2);
  Crowding::Time now = kStart;
  EXPECT_FALSE(crowding.alone(now));
  int wait = 10;
  for (const int pause : {20, 40, 80, 160, 320, 320}) {
    now += milliseconds(wait);
    crowding.crowded(now, milliseconds(wait));
    EXPECT_TRUE(crowding.alone(now + milliseconds(pause - 1))) << pause;
    now += milliseconds(pause);
    EXPECT_FALSE(crowding.alone(now)) << pause;
    wait = 50 - wait;  // 10 and 40
  }
  now += milliseconds(51);
  crowding.crowded(now, milliseconds(10));
  EXPECT_TRUE(crowding.alone(now + milliseconds(19)));
  EXPECT_FALSE(crowding.alone(now + milliseconds(20)));
}

TEST(Crowding, AfterAPauseOneShortWaitIsNoFailure) {
  Crowding crowding(2);
  crowding.crowded(kStart, milliseconds(10));
  const Crowding::Time later = kStart + milliseconds(40);  // 20 of them alone
  crowding.crowded(later, milliseconds(1));
  EXPECT_FALSE(crowding.alone(later));
}

}  // namespace
}  // namespace lamina
