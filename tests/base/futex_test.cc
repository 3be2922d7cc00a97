#include "base/futex.h"

#include <gtest/gtest.h>

#include <thread>

namespace lamina {
namespace {

using namespace std::chrono_literals;

TEST(Futex, ParkReturnsAtOnceWhenTheWordHasChanged) {
  const std::atomic<uint32_t> word{1};
  park(word, 0, 1h);
}

TEST(Futex, ParkReturnsAtTheLimit) {
  const std::atomic<uint32_t> word{0};
  park(word, 0, 1ms);
  park(word, 0, -1ms);
}

TEST(Futex, UnparkWakesAllThatSleep) {
  std::atomic<uint32_t> word{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      while (word.load() == 0) park(word, 0, 1h);
    });
  }
  word.store(1);
  unpark_all(word);
  for (std::thread& sleeper : sleepers) sleeper.join();
}

}  // namespace
}  // namespace lamina
