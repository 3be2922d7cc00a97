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
  /// Takes back what let_one() allowed and no step has used; returns when the next step waits. Only while requests go on.
  void hold() {
    std::unique_lock lock(mutex_);
    one_ = false;
    changed_.wait(lock, [&] { return held_; });
  }
  /// Steps wait no more.
  void open() { change(open_); }

  void tap(std::string_view module, std::string_view, ConstF32View, int64_t) override {
    if (module != "model.embed_tokens") return;
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || one_; });
    held_ = one_ = false;
  }
  void wire(std::string_view, std::string_view, uint64_t) override {}

 private:
  void change(bool& what) {
    {
      const std::lock_guard lock(mutex_);
      what = true;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool one_ = false, open_ = false, held_ = false;
};

}  // namespace lamina::fixture
