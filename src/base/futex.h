#pragma once
// Sleeping until a word changes, with a time limit (which std::atomic::wait has not).

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lamina {

/// Sleeps while `word` is `seen`, until unpark_all(word) or the limit; may return earlier. Whoever changes `word` must then call
/// unpark_all.
void park(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds limit);
/// Wakes every thread of this process that is parked on `word`.
void unpark_all(const std::atomic<uint32_t>& word);

}  // namespace lamina
