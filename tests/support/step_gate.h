#pragma once
// Holds up the steps of an engine: a test says when they come, and no request ends before its time, however late a thread is.

#include <condition_variable>
#include <mutex>

#include "layers/context.h"

namespace lamina::fixture {

/// The sink of rank 0 (Engine::set_taps). Outlives the engine, which ends only once its last step goes on: open() before.
class StepGate final : public TapSink {
 public:
  /// The step that waits goes on, or the next one that comes.
  void let_one() { change(one_); }
  /// Steps wait no more.
  void open() { change(open_); }

  void tap(std::string_view module, std::string_view, ConstF32View, int64_t) override {
    if (module != "model.embed_tokens") return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ || one_; });
    one_ = false;
  }
  void wire(std::string_view, std::string_view, uint64_t) override {}

 private:
  void change(bool& what) {
    {
      const std::lock_guard lock(mutex_);
      what = true;
    }
    changed_.notify_one();
  }

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool one_ = false, open_ = false;
};

}  // namespace lamina::fixture
