#pragma once
// Filters, tests, methods and global functions: native code under a name, in constant tables.

#include <array>
#include <span>
#include <string_view>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace lamina::jinja {

struct NamedArgument {
  std::string_view name;
  Value value;
};

struct Arguments {
  std::span<const Value> positional;
  std::span<const NamedArgument> named{};
};

inline constexpr int kAnyArguments = -1;
inline constexpr int kMaxParameters = 6;

/// The arguments of one call by the place of their parameter.
struct Bound {
  Arguments all;                                  // as given
  std::array<const Value*, kMaxParameters> at{};  // null: not given
  bool has(int i) const { return at[static_cast<size_t>(i)] != nullptr; }
  /// Given and not None.
  bool set(int i) const { return has(i) && !value(i).is_none(); }
  /// Requires has(i).
  const Value& value(int i) const { return *at[static_cast<size_t>(i)]; }
};

struct Native {
  std::string_view name;
  /// `self` is the input of a filter or test, the object of a method, undefined for a function.
  Result<Value> (*run)(Runtime& runtime, const Value& self, const Bound& arguments);
  int required = 0;  // of the parameters; kAnyArguments: takes whatever comes, in Bound::all
  std::array<std::string_view, kMaxParameters> parameters{};
};

/// Fails for too many, unknown, doubled and missing arguments. The result views `arguments`.
Result<Bound> bind(const Native& native, const Arguments& arguments);
/// Binds and runs.
Result<Value> call(Runtime& runtime, const Native& native, const Value& self, const Arguments& arguments);

// Reading arguments; errors name the value's type and what is wanted.
Result<int64_t> integer_of(const Value& value);  // saturates at the ends of int64
Result<const Text*> text_of(const Value& value);
/// Argument i as integer or text; `otherwise` where it is not given or None.
Result<int64_t> integer_or(const Bound& arguments, int i, int64_t otherwise);
Result<const Text*> text_or(const Bound& arguments, int i, const Text* otherwise);
/// Truth of argument i.
bool flag_or(const Bound& arguments, int i, bool otherwise);

/// The entry of that name in a table sorted by name, or nullptr.
const Native* find_native(std::span<const Native> table, std::string_view name);
constexpr bool sorted_by_name(std::span<const Native> table) {
  for (size_t i = 1; i < table.size(); ++i)
    if (!(table[i - 1].name < table[i].name)) return false;
  return true;
}

const Native* find_filter(std::string_view name);
const Native* find_test(std::string_view name);
const Native* find_text_method(std::string_view name);
/// range, dict, namespace, raise_exception, strftime_now, ...
std::span<const Native> global_functions();
/// The function raise_exception, whose message is the whole error.
bool is_raise_exception(const Native& native);

}  // namespace lamina::jinja
