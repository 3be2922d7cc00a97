#include "base/crowding.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Crowding, IsALongWaitForThreadsThatDidNotRun) {
  EXPECT_TRUE(Crowding::is_crowded(milliseconds(3), milliseconds(1)));
  EXPECT_FALSE(Crowding::is_crowded(milliseconds(3), milliseconds(2)));    // they computed
  EXPECT_FALSE(Crowding::is_crowded(microseconds(100), microseconds(0)));  // as long as a wake-up
}

TEST(Crowding, PausesGrowWhileTriesFailAndBeginAnewAfterACalm) {
  Crowding crowding;
  Crowding::Time now{std::chrono::hours(1)};
  EXPECT_FALSE(crowding.alone(now));
  for (const int pause : {20, 40, 80, 160, 320, 320}) {
    crowding.crowded(now);
    EXPECT_TRUE(crowding.alone(now + milliseconds(pause - 1))) << pause;
    now += milliseconds(pause);
    EXPECT_FALSE(crowding.alone(now)) << pause;
  }
  now += milliseconds(51);
  crowding.crowded(now);
  EXPECT_FALSE(crowding.alone(now + milliseconds(20)));
}

}  // namespace
}  // namespace lamina
