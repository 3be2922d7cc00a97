#include "server/schema.h"

#include <algorithm>

#include "base/log.h"
#include "base/strings.h"

namespace lamina::server {
namespace {

ApiError wrong_type(const Field& field, std::string_view wanted, const Json& value) {
  return bad_field(field.name, cat("must be ", wanted, ", not ", value.kind_name()));
}

Fault check_range(const Field& field, int64_t value) {
  if (value >= field.low && value <= field.high) return std::nullopt;
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  const std::string upper = field.high == kNoLimit ? std::string() : cat(" and at most ", field.high);
  return bad_field(field.name, cat("is ", value, ": it must be at least ", field.low, upper));
}

/// One overload a target; each returns what is wrong with `value`.
struct Store {
  const Field& field;
  const Json& value;

  Fault operator()(bool* target) const {
    if (!value.is_bool()) return wrong_type(field, "true or false", value);
    *target = value.as_bool();
    return std::nullopt;
  }
  Fault operator()(int* target) const {
    Field bounded = field;
    bounded.low = std::max<int64_t>(field.low, std::numeric_limits<int>::min());
    bounded.high = std::min<int64_t>(field.high, std::numeric_limits<int>::max());
    if (!value.is_integer()) return wrong_type(field, "an integer", value);
    if (Fault fault = check_range(bounded, value.as_integer())) return fault;
    *target = static_cast<int>(value.as_integer());
    return std::nullopt;
  }
  Fault operator()(std::optional<int64_t>* target) const {
    if (!value.is_integer()) return wrong_type(field, "an integer", value);
    if (Fault fault = check_range(field, value.as_integer())) return fault;
    *target = value.as_integer();
    return std::nullopt;
  }
  Fault operator()(double* target) const {
    if (!value.is_number()) return wrong_type(field, "a number", value);
    *target = value.as_double();
    return std::nullopt;
  }
  Fault operator()(std::string* target) const {
    if (!value.is_string()) return wrong_type(field, "a string", value);
    const int64_t bytes = static_cast<int64_t>(value.as_string().size());
    if (bytes > field.high) return bad_field(field.name, cat("has ", bytes, " bytes: at most ", field.high, " are allowed"));
    *target = value.as_string();
    return std::nullopt;
  }
  Fault operator()(const NotBuilt& rule) const {
    const bool empty = (value.is_bool() && !value.as_bool()) || (value.is_array() && value.as_array().empty()) ||
                       (value.is_object() && value.as_object().empty()) ||
                       (value.is_string() && (value.as_string().empty() || value.as_string() == rule.neutral));
    if (empty) return std::nullopt;
    return bad_field(field.name, "is not supported by this server");
  }
  Fault operator()(NoEffect) const { return std::nullopt; }
  Fault operator()(const FieldReader& reader) const { return reader(value, field.name); }
};

}  // namespace

Fault read_fields(const Json& object, const std::vector<Field>& fields) {
  for (const auto& [key, value] : object.as_object()) {
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == key; });
    if (field == fields.end()) {
      log_debug(cat("a request has the unknown field ", shown_text(key)));
      continue;
    }
    if (value.is_null()) continue;
    if (Fault fault = std::visit(Store{*field, value}, field->target)) return fault;
  }
  return std::nullopt;
}

Fault read_ids(const Json& value, std::string_view name, int limit, std::vector<int32_t>& out) {
  if (!value.is_array()) return bad_field(name, cat("must be an array of token ids, not ", value.kind_name()));
  out.reserve(out.size() + value.as_array().size());
  for (const Json& item : value.as_array()) {
    if (!item.is_integer()) return bad_field(name, cat("must hold token ids, which are integers, not ", shown(item)));
    const int64_t id = item.as_integer();
    if (id < 0 || id >= limit) return bad_field(name, cat("holds token id ", id, ": ids are in [0, ", limit, ")"));
    out.push_back(static_cast<int32_t>(id));
  }
  return std::nullopt;
}

Fault read_strings(const Json& value, std::string_view name, size_t count, size_t bytes, std::vector<std::string>& out) {
  const Json::Array one = value.is_string() ? Json::Array{value} : Json::Array{};
  if (!value.is_string() && !value.is_array())
    return bad_field(name, cat("must be a string or an array of strings, not ", value.kind_name()));
  const Json::Array& items = value.is_string() ? one : value.as_array();
  if (items.size() > count) return bad_field(name, cat("has ", items.size(), " strings: at most ", count, " are allowed"));
  for (const Json& item : items) {
    if (!item.is_string()) return bad_field(name, cat("must hold strings, not ", shown(item)));
    const std::string& text = item.as_string();
    if (text.empty()) return bad_field(name, "must not hold an empty string");
    if (text.size() > bytes) return bad_field(name, cat("holds a string of ", text.size(), " bytes: at most ", bytes, " are allowed"));
    out.push_back(text);
  }
  return std::nullopt;
}

}  // namespace lamina::server
