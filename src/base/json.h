#pragma once
// JSON values with bounded parsing. Objects keep the order of their keys; numbers keep their kind (1 and 1.0 differ).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace lamina {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;
  enum class Kind { kNull, kBool, kInteger, kDouble, kString, kArray, kObject };

  Json() = default;
  Json(std::nullptr_t) {}                               // NOLINT(google-explicit-constructor)
  Json(bool v) : value_(v) {}                           // NOLINT(google-explicit-constructor)
  Json(int v) : value_(int64_t{v}) {}                   // NOLINT(google-explicit-constructor)
  Json(int64_t v) : value_(v) {}                        // NOLINT(google-explicit-constructor)
  Json(size_t v);                                       // NOLINT(google-explicit-constructor): beyond int64 a wide integer
  Json(double v) : value_(Number{v}) {}                 // NOLINT(google-explicit-constructor)
  Json(const char* v) : value_(std::string(v)) {}       // NOLINT(google-explicit-constructor)
  Json(std::string_view v) : value_(std::string(v)) {}  // NOLINT(google-explicit-constructor)
  Json(std::string v) : value_(std::move(v)) {}         // NOLINT(google-explicit-constructor)
  Json(Array v) : value_(std::move(v)) {}               // NOLINT(google-explicit-constructor)
  Json(Object v) : value_(std::move(v)) {}              // NOLINT(google-explicit-constructor)
  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_integer() const { return kind() == Kind::kInteger; }
  bool is_number() const { return kind() == Kind::kInteger || kind() == Kind::kDouble; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }
  /// "null", "a boolean", "an integer", ... for error messages.
  const char* kind_name() const;

  // Accessors require the kind (a CHECK); as_double accepts an integer too.
  bool as_bool() const;
  int64_t as_integer() const;
  double as_double() const;
  /// The exact value of an integer beyond int64 and within uint64, whose kind is kDouble; 0 for everything else.
  uint64_t wide_integer() const;
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  /// The member, or nullptr when this is no object or has no such key. A linear search: walk as_object() for thousands of keys.
  const Json* find(std::string_view key) const;
  /// Sets or replaces a member; makes null an object.
  void set(std::string_view key, Json value);
  /// Appends to an array; makes null an array.
  void push(Json value);

  /// One line without spaces when indent < 0. Doubles print in their shortest form that reads back equal and as a double (1.0); NaN and
  /// infinities as null. Non-ASCII characters are written as they are; bytes that are not UTF-8 as U+FFFD.
  std::string dump(int indent = -1) const;

  friend bool operator==(const Json&, const Json&) = default;

 private:
  struct Number {
    double value;
    uint64_t exact = 0;  // what wide_integer() says
    friend bool operator==(const Number&, const Number&) = default;
  };
  std::variant<std::monostate, bool, int64_t, Number, std::string, Array, Object> value_;
};

struct JsonLimits {
  int max_depth = 128;  // nested arrays and objects; values above 1000 count as 1000, because values are walked recursively
  size_t max_bytes = size_t{256} << 20;
};

/// Parses one JSON document of valid UTF-8. Refuses duplicate keys, lone surrogates, depth and size over the limits, trailing
/// text, numbers beyond double; integers beyond int64 become doubles (which keep their exact value up to uint64). The error names `what` (a
/// file name, "request body") and the byte offset.
Result<Json> parse_json(std::string_view text, std::string_view what, JsonLimits limits = {});

}  // namespace lamina
