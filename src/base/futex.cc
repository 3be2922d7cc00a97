#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace lamina {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free,
              "the kernel reads the word itself");

void park(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds limit) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t left = std::max<int64_t>(limit.count(), 0);
  const timespec timeout{.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
}

void unpark_all(const std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace lamina
