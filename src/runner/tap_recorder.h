#pragma once
// What each boundary of a run has read, put together from the ranks, so that two runs can be compared boundary by boundary.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layers/context.h"

namespace lamina {

/// Where two runs part.
struct FirstDifference {
  int64_t layer = 0;     // global id; that of the last layer + 1 behind it
  std::string boundary;  // "attention", "ffn", "final" (the last norm) or "logits" (the residual agrees, the head does not)
  double max_abs_diff = 0;
};

/// Records "attention_boundary" and "ffn_boundary" of all layers and the last norm's "boundary" while one prompt runs. A step's rows may
/// come from several ranks, each from its own thread; the sinks live as long as the recorder.
class TapRecorder {
 public:
  TapRecorder();
  ~TapRecorder();
  TapSink* sink(int rank);

  /// The first boundary of `expected`, in the model's order, that `got` lacks rows of, whose ranks disagree, or whose difference has a norm
  /// above `relative` times its own; rows of `got` beyond those of `expected` are padding.
  static std::optional<FirstDifference> first_difference(const TapRecorder& expected, const TapRecorder& got, double relative);

 private:
  class Sink;
  struct Step {
    int64_t cols = 0;
    std::map<int64_t, std::vector<float>> rows;
    double conflict = 0;  // largest difference between ranks that hold the same row
  };
  using Place = std::pair<int64_t, std::string>;  // layer, boundary
  void add(const Place& place, size_t step, ConstF32View view, int64_t first_row);
  static std::optional<double> difference(const std::vector<Step>& expected, const std::vector<Step>& got, double relative);

  std::mutex mutex_;  // guards boundaries_
  std::map<Place, std::vector<Step>> boundaries_;
  std::map<int, std::unique_ptr<Sink>> sinks_;
};

}  // namespace lamina
