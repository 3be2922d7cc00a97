#pragma once
// When a team of threads leaves its work to the first of them.

#include <algorithm>
#include <chrono>

namespace lamina {

/// A thread that lost its CPU to another process in the middle of a job keeps the team waiting for milliseconds, in which the first thread
/// would have done the job, and many more, alone. After such a wait it works alone for a while: longer each time the next try fails as
/// well.
class Crowding {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// A wait that says something of the neighbours, in which the threads waited for got less than half of the time as CPU time.
  static bool is_crowded(Duration waited, Duration cpu_time) { return waited >= kTelling && cpu_time < waited / 2; }

  void crowded(Time now) {
    pause_ = now < until_ + kCalm ? std::min(2 * pause_, kLongest) : kShortest;
    until_ = now + pause_;
  }
  bool alone(Time now) const { return now < until_; }

 private:
  static constexpr Duration kTelling = std::chrono::microseconds(300);
  static constexpr Duration kCalm = std::chrono::milliseconds(50);  // without such a wait; then the next one counts as the first
  static constexpr Duration kShortest = std::chrono::milliseconds(20);
  static constexpr Duration kLongest = std::chrono::milliseconds(320);
  Time until_{};
  Duration pause_ = kShortest;
};

}  // namespace lamina
