#include "runner/tap_recorder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

namespace lamina {
namespace {

constexpr std::string_view kLayers = "model.layers.";
constexpr std::string_view kSuffix = "_boundary";

/// The layer of "model.layers.3"; nothing for other modules.
std::optional<int64_t> layer_of(std::string_view module) {
  if (!module.starts_with(kLayers)) return std::nullopt;
  module.remove_prefix(kLayers.size());
  int64_t layer = 0;
  const auto [end, fault] = std::from_chars(module.data(), module.data() + module.size(), layer);
  return fault == std::errc() && end == module.data() + module.size() ? std::optional(layer) : std::nullopt;
}

}  // namespace

/// One rank's. Its taps of a boundary come once a step.
class TapRecorder::Sink final : public TapSink {
 public:
  explicit Sink(TapRecorder& recorder) : recorder_(recorder) {}

  void tap(std::string_view module, std::string_view value, ConstF32View view, int64_t first_row) override {
    if (!value.ends_with(kSuffix.substr(1))) return;
    const std::optional<int64_t> layer = layer_of(module);
    const Place place =
        layer ? Place(*layer, value.substr(0, value.size() - kSuffix.size())) : Place(std::numeric_limits<int64_t>::max(), "final");
    recorder_.add(place, steps_[place]++, view, first_row);
  }
  void wire(std::string_view, std::string_view, uint64_t) override {}

 private:
  TapRecorder& recorder_;
  std::map<Place, size_t> steps_;  // that this rank has tapped
};

TapRecorder::TapRecorder() = default;
TapRecorder::~TapRecorder() = default;

TapSink* TapRecorder::sink(int rank) {
  std::unique_ptr<Sink>& sink = sinks_[rank];
  if (!sink) sink = std::make_unique<Sink>(*this);
  return sink.get();
}

void TapRecorder::add(const Place& place, size_t step, ConstF32View view, int64_t first_row) {
  const std::lock_guard lock(mutex_);
  std::vector<Step>& steps = boundaries_[place];
  if (steps.size() <= step) steps.resize(step + 1);
  steps[step].cols = view.cols;
  for (int64_t r = 0; r < view.rows; ++r) {
    std::vector<float>& row = steps[step].rows[first_row + r];
    if (row.empty()) row.assign(view.row(r), view.row(r) + view.cols);
    for (int64_t c = 0; c < view.cols; ++c) {
      const double apart = std::abs(static_cast<double>(row[static_cast<size_t>(c)]) - view.row(r)[c]);
      steps[step].conflict = std::max(steps[step].conflict, apart);
    }
  }
}

/// The largest difference when there is a visible one; infinite when rows are missing or hold no numbers.
std::optional<double> TapRecorder::difference(const std::vector<Step>& expected, const std::vector<Step>& got, double relative) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  double worst = 0, conflict = 0, apart_squared = 0, own_squared = 0;
  if (got.size() != expected.size()) return kNone;
  for (size_t s = 0; s < expected.size(); ++s) {
    conflict = std::max(conflict, got[s].conflict);
    for (const auto& [index, row] : expected[s].rows) {
      const auto found = got[s].rows.find(index);
      if (found == got[s].rows.end() || found->second.size() != row.size()) return kNone;
      for (size_t c = 0; c < row.size(); ++c) {
        const double apart = std::abs(static_cast<double>(row[c]) - found->second[c]);
        worst = std::max(worst, apart);
        apart_squared += apart * apart;
        own_squared += static_cast<double>(row[c]) * row[c];
      }
    }
  }
  const bool agrees = std::sqrt(apart_squared) <= relative * std::sqrt(own_squared);  // false for NaN
  if (agrees && conflict == 0) return std::nullopt;
  return std::isnan(apart_squared) ? kNone : std::max(worst, conflict);
}

std::optional<FirstDifference> TapRecorder::first_difference(const TapRecorder& expected, const TapRecorder& got, double relative) {
  int64_t layers = 0;
  for (const auto& [place, steps] : expected.boundaries_) {
    if (place.second != "final") layers = std::max(layers, place.first + 1);
    const auto found = got.boundaries_.find(place);
    const std::vector<Step> none;
    const std::optional<double> apart = difference(steps, found == got.boundaries_.end() ? none : found->second, relative);
    if (apart) return FirstDifference{std::min(place.first, layers), place.second, *apart};
  }
  return std::nullopt;
}

}  // namespace lamina
