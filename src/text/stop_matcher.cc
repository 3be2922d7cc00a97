#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace lamina {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

size_t StopMatcher::open_tail() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) longest = n;
    }
  }
  return longest;
}

StopMatcher::Output StopMatcher::feed(std::string_view piece) {
  held_ += piece;
  size_t end = std::string::npos, begin = 0;
  const std::string* matched = nullptr;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const bool earlier = matched == nullptr || at + stop.size() < end || (at + stop.size() == end && at < begin);
    if (earlier) end = at + stop.size(), begin = at, matched = &stop;
  }
  if (matched != nullptr) {
    Output out{held_.substr(0, begin), *matched};
    held_.clear();
    stops_.clear();
    return out;
  }
  const size_t keep = open_tail();
  Output out{held_.substr(0, held_.size() - keep), std::nullopt};
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace lamina
