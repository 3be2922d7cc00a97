#include "text/jinja/native.h"

#include <algorithm>

#include "base/strings.h"

namespace lamina::jinja {

Result<Bound> bind(const Native& native, const Arguments& arguments) {
  Bound bound{.all = arguments};
  if (native.required == kAnyArguments) return bound;
  const auto count = static_cast<size_t>(std::ranges::find(native.parameters, std::string_view()) - native.parameters.begin());
  if (arguments.positional.size() > count)
    return error(native.name, "() takes at most ", count, " arguments, ", arguments.positional.size(), " are given");
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound.at[i] = &arguments.positional[i];
  for (const NamedArgument& named : arguments.named) {
    const auto place = std::find(native.parameters.begin(), native.parameters.begin() + count, named.name);
    if (place == native.parameters.begin() + count) return error(native.name, "() has no argument '", named.name, "'");
    const Value*& at = bound.at[static_cast<size_t>(place - native.parameters.begin())];
    if (at != nullptr) return error(native.name, "() is given the argument '", named.name, "' twice");
    at = &named.value;
  }
  for (int i = 0; i < native.required; ++i)
    if (!bound.has(i)) return error(native.name, "() needs the argument '", native.parameters[static_cast<size_t>(i)], "'");
  return bound;
}

Result<Value> call(Runtime& runtime, const Native& native, const Value& self, const Arguments& arguments) {
  LAMINA_ASSIGN(const Bound bound, bind(native, arguments));
  return native.run(runtime, self, bound);
}

Result<int64_t> integer_of(const Value& value) {
  if (!value.is_integral()) return error("an int is needed, not ", type_name(value));
  return static_cast<int64_t>(std::clamp(value.integer(), Integer{INT64_MIN}, Integer{INT64_MAX}));
}

Result<const Text*> text_of(const Value& value) {
  if (value.text() == nullptr) return error("a str is needed, not ", type_name(value));
  return value.text();
}

Result<int64_t> integer_or(const Bound& arguments, int i, int64_t otherwise) {
  return arguments.set(i) ? integer_of(arguments.value(i)) : Result<int64_t>(otherwise);
}

Result<const Text*> text_or(const Bound& arguments, int i, const Text* otherwise) {
  return arguments.set(i) ? text_of(arguments.value(i)) : Result<const Text*>(otherwise);
}

bool flag_or(const Bound& arguments, int i, bool otherwise) { return arguments.has(i) ? truthy(arguments.value(i)) : otherwise; }

const Native* find_native(std::span<const Native> table, std::string_view name) {
  const auto found = std::ranges::lower_bound(table, name, {}, &Native::name);
  return found == table.end() || found->name != name ? nullptr : &*found;
}

}  // namespace lamina::jinja
