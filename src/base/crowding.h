#pragma once
// When a team of threads leaves its work to the first of them.

#include <algorithm>
#include <chrono>

namespace lamina {

/// A thread that lost its CPU to another process in the middle of a job keeps the team waiting for milliseconds. Alone, the first thread of
/// n may take n times as long: worth it where such waits take more of the team's time than that would, as beside a process that never
/// sleeps, and not where a client reads its answer on the same CPU. Then the first thread works alone for a while: longer each time the
/// next try fails as well.
class Crowding {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  explicit Crowding(int threads) : bearable_(kBearable * (threads - 1) / threads) {}

  /// A wait that says something of the neighbours, in which the threads waited for got less than half of the time as CPU time.
  static bool is_crowded(Duration waited, Duration cpu_time) { return waited >= kTelling && cpu_time < waited / 2; }

  /// Such a wait ended now.
  void crowded(Time now, Duration waited) {
    if (excess_ <= borne(now - waited - seen_)) pause_ = kShortest / 2;  // all was well until this wait
    excess_ = std::min(std::max(Duration{}, excess_ - borne(now - seen_)) + waited, kExcess);
    seen_ = now;
    if (excess_ < kExcess) return;
    pause_ = std::min(2 * pause_, kLongest);
    seen_ = now + pause_;
  }
  bool alone(Time now) const { return now < seen_; }

 private:
  static constexpr Duration kTelling = std::chrono::microseconds(300);
  static constexpr Duration kExcess = std::chrono::milliseconds(10);
  static constexpr Duration kShortest = std::chrono::milliseconds(20);
  static constexpr Duration kLongest = std::chrono::milliseconds(320);
  // Of the share of time that working alone loses where computing bounds it; where reading does, it loses less.
  static constexpr double kBearable = 0.8;

  Duration borne(Duration time) const { return std::chrono::duration_cast<Duration>(time * bearable_); }

  double bearable_;    // waits below this share of the time are borne
  Duration excess_{};  // waits above it of late; at kExcess the team gives up
  Time seen_{};        // the end of the last wait, or of the pause that followed
  Duration pause_ = kShortest;
};

}  // namespace lamina
