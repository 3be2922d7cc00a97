#pragma once
// Checkpoint names -> parameter names, by whole path components, longest rule first.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// A run of path components rewritten where it matches whole components: {"language_model.model", "model"}. An empty `to` removes them.
/// `anchored`: only at the start of the name.
struct RenameRule {
  std::string from;
  std::string to;
  bool anchored = true;
};

/// Tensors that are rightly not loaded. A name matches when `components` is a run of its components. "*" matches one component, "#" a
/// number, "#28+" a number of at least 28 (so that "model.layers.#28+" are the layers a 28-layer model does not have).
struct SkipRule {
  std::string components;
  std::string reason;
  std::string instead = {};  // if any: only where a parameter has the name with `components` replaced by this
};

class NameMap {
 public:
  NameMap() = default;
  NameMap(std::vector<RenameRule> renames, std::vector<SkipRule> skips);

  /// The parameter name a tensor name stands for: one pass from left to right, at each component the longest rule that matches there;
  /// what a rule wrote is not matched again. The loader takes a name that a parameter owns as it is, before any rename.
  std::string rename(std::string_view tensor) const;
  /// The reason of the first rule that matches the name or its renamed form. The loader asks only for names that nothing owns; `owned` says
  /// whether a parameter has a name.
  std::optional<std::string> skip_reason(std::string_view tensor, const std::function<bool(const std::string&)>& owned) const;

 private:
  using Path = std::vector<std::string>;
  struct Rename {
    Path from, to;
    bool anchored;
  };
  struct Skip {
    Path pattern;
    std::string reason;
    std::string instead;
  };
  std::vector<Rename> renames_;  // longest `from` first
  std::vector<Skip> skips_;
};

}  // namespace lamina
