#pragma once
// Reads a request's JSON object by a table of its fields. null counts as absent, as the SDKs send it. Unknown fields are ignored with a
// debug line in the log, as OpenAI's clients expect of servers that know fewer fields.

#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "server/errors.h"

namespace lamina::server {

/// Reads a value whose shape a table cannot say.
using FieldReader = std::function<Fault(const Json& value, std::string_view name)>;

/// A field that would change the answer and is not built: refused by name unless its value asks for nothing (false, 0 elements, or
/// `neutral`).
struct NotBuilt {
  std::string_view neutral = "";
};

/// A field that is accepted and has no effect here.
struct NoEffect {};

/// Where a value goes; the type of the pointer says what is accepted.
using FieldTarget = std::variant<bool*, int*, std::optional<int64_t>*, double*, std::string*, NotBuilt, NoEffect, FieldReader>;

struct Field {
  std::string_view name;
  FieldTarget target;
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();  // of integers; of a string: its bytes
};

/// Fills the targets of the fields that `object` has. The fault names the field, its value and what is allowed.
Fault read_fields(const Json& object, const std::vector<Field>& fields);

/// Elements of an array of integers in [0, limit).
Fault read_ids(const Json& value, std::string_view name, int limit, std::vector<int32_t>& out);
/// A string or an array of strings, none of them empty: at most `count` of at most `bytes` each.
Fault read_strings(const Json& value, std::string_view name, size_t count, size_t bytes, std::vector<std::string>& out);

}  // namespace lamina::server
