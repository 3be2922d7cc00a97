#pragma once
// Stop strings in streamed text: what may still become one is held back.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// Fed with pieces of a text; gives back what is certainly before any stop string. Where several end at the same byte the longest counts;
/// the text is cut exactly before it. Holds back at most the longest stop string less a byte.
class StopMatcher {
 public:
  /// Empty strings never match.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Output {
    std::string text;
    std::optional<std::string> matched;  // the stop string; nothing more is given back afterwards
  };
  Output feed(std::string_view piece);
  /// The rest, when the text ended without a match.
  std::string flush();

 private:
  /// Bytes at the end of held_ that a stop string could begin with.
  size_t open_tail() const;

  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace lamina
