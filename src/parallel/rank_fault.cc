#include "parallel/rank_fault.h"

#include <utility>

namespace lamina {

void RankFault::raise(std::string message) {
  const std::scoped_lock lock(mutex_);
  if (raised()) return;
  message_ = std::move(message);
  raised_.store(true, std::memory_order_release);
}

std::string RankFault::message() const {
  const std::scoped_lock lock(mutex_);
  return message_;
}

}  // namespace lamina
