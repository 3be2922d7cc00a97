#pragma once
// Time is a parameter, so that schedulers and tests can run on a virtual clock.

#include <cstdint>

namespace lamina {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary start, never going back.
  virtual int64_t now_ns() const = 0;
};

class SteadyClock final : public Clock {
 public:
  int64_t now_ns() const override;
};

}  // namespace lamina
