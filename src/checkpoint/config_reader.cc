#include "checkpoint/config_reader.h"

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"

namespace lamina {

namespace {

template <class T>
struct As;

template <>
struct As<bool> {
  static constexpr const char* kWanted = "true or false";
  static std::optional<bool> get(const Json& v) { return v.is_bool() ? std::optional(v.as_bool()) : std::nullopt; }
};
template <>
struct As<int64_t> {
  static constexpr const char* kWanted = "an integer";
  static std::optional<int64_t> get(const Json& v) { return v.is_integer() ? std::optional(v.as_integer()) : std::nullopt; }
};
template <>
struct As<double> {
  static constexpr const char* kWanted = "a finite number";
  static std::optional<double> get(const Json& v) {
    return v.is_number() && std::isfinite(v.as_double()) ? std::optional(v.as_double()) : std::nullopt;
  }
};
template <>
struct As<std::string> {
  static constexpr const char* kWanted = "a string";
  static std::optional<std::string> get(const Json& v) { return v.is_string() ? std::optional(v.as_string()) : std::nullopt; }
};
template <class T>
struct As<std::vector<T>> {
  static inline const std::string kWanted = cat("an array, each element ", As<T>::kWanted);
  static std::optional<std::vector<T>> get(const Json& v) {
    if (!v.is_array()) return std::nullopt;
    std::vector<T> out;
    for (const Json& element : v.as_array()) {
      std::optional<T> one = As<T>::get(element);
      if (!one) return std::nullopt;
      out.push_back(std::move(*one));
    }
    return out;
  }
};

}  // namespace

std::string brief(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump();
  if (text.size() <= kLongest) return text;
  text.resize(valid_utf8_prefix(std::string_view(text).substr(0, kLongest)));
  return text + "...";
}

ConfigReader::ConfigReader(const Json& object, std::string what, std::string prefix)
    : object_(&object), what_(std::move(what)), prefix_(std::move(prefix)) {}

ConfigReader::Found ConfigReader::locate(Keys keys) const {
  for (std::string_view key : keys) {
    const Json* value = object_->find(key);
    if (value != nullptr && !value->is_null()) return {key, value};
  }
  return {};
}

const Json* ConfigReader::find(Keys keys) const { return locate(keys).value; }

Error ConfigReader::fault(std::string_view key, std::string_view message) const {
  return error(what_, ": key \"", prefix_, key, "\" ", message);
}

Error ConfigReader::missing(Keys keys) const {
  for (std::string_view key : keys) {
    if (object_->find(key) != nullptr) return fault(key, "is null, a value is required");
  }
  return error(what_, ": required key \"", prefix_, *keys.begin(), "\" is missing");
}

template <class T>
Result<std::optional<T>> ConfigReader::optional(Keys keys) const {
  const Found found = locate(keys);
  if (found.value == nullptr) return std::optional<T>{};
  std::optional<T> value = As<T>::get(*found.value);
  if (!value) return fault(found.key, cat("is ", found.value->kind_name(), " (", brief(*found.value), "), wanted ", As<T>::kWanted));
  return value;
}

template Result<std::optional<bool>> ConfigReader::optional<bool>(Keys) const;
template Result<std::optional<int64_t>> ConfigReader::optional<int64_t>(Keys) const;
template Result<std::optional<double>> ConfigReader::optional<double>(Keys) const;
template Result<std::optional<std::string>> ConfigReader::optional<std::string>(Keys) const;
template Result<std::optional<std::vector<int64_t>>> ConfigReader::optional<std::vector<int64_t>>(Keys) const;
template Result<std::optional<std::vector<double>>> ConfigReader::optional<std::vector<double>>(Keys) const;
template Result<std::optional<std::vector<std::string>>> ConfigReader::optional<std::vector<std::string>>(Keys) const;

Result<std::optional<int64_t>> ConfigReader::optional_in(Keys keys, int64_t low, int64_t high) const {
  LAMINA_ASSIGN(std::optional<int64_t> value, optional<int64_t>(keys));
  if (value && (*value < low || *value > high)) {
    return fault(locate(keys).key, cat("is ", *value, ", allowed are ", low, " to ", high));
  }
  return value;
}

Result<int64_t> ConfigReader::required_in(Keys keys, int64_t low, int64_t high) const {
  LAMINA_ASSIGN(std::optional<int64_t> value, optional_in(keys, low, high));
  if (!value) return missing(keys);
  return *value;
}

Result<double> ConfigReader::positive_or(Keys keys, double fallback) const {
  LAMINA_ASSIGN(std::optional<double> value, optional<double>(keys));
  if (value && !(*value > 0)) return fault(locate(keys).key, cat("is ", *value, ", wanted a number greater than 0"));
  return value.value_or(fallback);
}

Result<std::optional<ConfigReader>> ConfigReader::object(Keys keys) const {
  const Found found = locate(keys);
  if (found.value == nullptr) return std::optional<ConfigReader>{};
  if (!found.value->is_object()) {
    return fault(found.key, cat("is ", found.value->kind_name(), " (", brief(*found.value), "), wanted an object"));
  }
  return std::optional<ConfigReader>(ConfigReader(*found.value, what_, cat(prefix_, found.key, ".")));
}

void merge_json(Json& base, const Json& patch) {
  for (const auto& [key, value] : patch.as_object()) {
    Json* target = nullptr;
    for (auto& member : base.as_object()) {
      if (member.first == key) target = &member.second;
    }
    if (target != nullptr && target->is_object() && value.is_object()) {
      merge_json(*target, value);
    } else {
      base.set(key, value);
    }
  }
}

}  // namespace lamina
