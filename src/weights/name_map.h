#pragma once
// Checkpoint names -> parameter names, by whole path components, longest rule first.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina {

/// A run of path components rewritten where it matches whole components: {"language_model.model", "model"}.
/// `anchored`: only at the start of the name.
struct RenameRule {
  std::string from;
  std::string to;
  bool anchored = true;
};

/// Tensors that are rightly not loaded. A name matches when `components` is a run of its components ("*" matches one component, "#" a number).
struct SkipRule {
  std::string components;
  std::string reason;
};

class NameMap {
 public:
  NameMap() = default;
  NameMap(std::vector<RenameRule> renames, std::vector<SkipRule> skips);

  /// The parameter name a tensor name stands for, after renames.
  std::string rename(std::string_view tensor) const;
  /// The reason why the tensor is skipped, if a rule says so. A tensor that a parameter owns is loaded whatever the rules say, except
  /// that this is decided by the loader.
  std::optional<std::string> skip_reason(std::string_view tensor) const;

 private:
  std::vector<RenameRule> renames_;  // longest `from` first
  std::vector<SkipRule> skips_;
};

}  // namespace lamina
