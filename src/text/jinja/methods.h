#pragma once
// Methods of text, lists, dicts, loops, cyclers.

#include "text/jinja/native.h"

namespace lamina::jinja {

/// The method of `object` of that name, or nullptr.
const Native* find_method(const Value& object, std::string_view name);
/// Methods that change their object: the sandbox denies them.
bool is_mutating_method(const Value& object, std::string_view name);
/// Text, list, tuple or range: has a length and elements by index.
bool is_sequence(const Value& value);
/// Calls what is neither a function nor a loop: a joiner. Fails for all else.
Result<Value> call_object(Runtime& runtime, const Value& object, const Arguments& arguments);

}  // namespace lamina::jinja
