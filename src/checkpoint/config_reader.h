#pragma once
// Typed access to the keys of a JSON object, with errors that name the file, the key, what was found and what is wanted.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace lamina {

/// Reads members of one JSON object. A null member counts as absent. Where several spellings of a key are given, the first that is
/// present and not null wins. The object must outlive the reader.
class ConfigReader {
 public:
  using Keys = std::initializer_list<std::string_view>;

  /// `what` names the file; `prefix` ("rope_scaling.") goes in front of each key in a message.
  ConfigReader(const Json& object, std::string what, std::string prefix = "");

  /// The member of the first spelling that is present and not null, or nullptr.
  const Json* find(Keys keys) const;
  bool has(Keys keys) const { return find(keys) != nullptr; }

  /// T is bool, int64_t, double (an integer will do, infinities will not), std::string, or a vector of int64_t, double or std::string.
  /// An error when the key is missing, null or of another kind.
  template <class T>
  Result<T> required(Keys keys) const {
    LAMINA_ASSIGN(std::optional<T> value, optional<T>(keys));
    if (!value) return missing(keys);
    return std::move(*value);
  }
  /// As required, but nothing when the key is missing or null.
  template <class T>
  Result<std::optional<T>> optional(Keys keys) const;
  /// As required, but `fallback` when the key is missing or null.
  template <class T>
  Result<T> value_or(Keys keys, T fallback) const {
    LAMINA_ASSIGN(std::optional<T> value, optional<T>(keys));
    return value ? std::move(*value) : std::move(fallback);
  }

  /// Integers that must lie in [low, high]; the error names the value and the bounds.
  Result<int64_t> required_in(Keys keys, int64_t low, int64_t high) const;
  Result<std::optional<int64_t>> optional_in(Keys keys, int64_t low, int64_t high) const;
  /// A number that must be greater than zero; `fallback` when the key is missing or null.
  Result<double> positive_or(Keys keys, double fallback) const;

  /// A reader of a nested object, or nothing when the key is missing or null.
  Result<std::optional<ConfigReader>> object(Keys keys) const;

  /// "config.json: key "rope_scaling.factor" " + message.
  Error fault(std::string_view key, std::string_view message) const;
  const Json& json() const { return *object_; }

 private:
  struct Found {
    std::string_view key;
    const Json* value = nullptr;
  };
  Found locate(Keys keys) const;
  Error missing(Keys keys) const;

  const Json* object_;
  std::string what_;
  std::string prefix_;
};

/// Merges `patch` into `base`: objects member by member, anything else replaces. Both must be objects.
void merge_json(Json& base, const Json& patch);

/// A short form of a value for messages: long text, arrays and objects are cut.
std::string brief(const Json& value);

}  // namespace lamina
