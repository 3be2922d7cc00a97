#pragma once
// Arithmetic and the element accesses of expressions.

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace lamina::jinja {

Result<Value> arithmetic(Runtime& runtime, Arithmetic::Operator op, const Value& left, const Value& right);
Result<Value> negated(const Value& value);
Result<bool> compared(Runtime& runtime, Comparison::Operator op, const Value& left, const Value& right);

/// object.name: an attribute or method, else the entry of that key, else undefined. Fails for an undefined object.
Result<Value> attribute(Runtime& runtime, const Value& object, std::string_view name);
/// object[key]: the element, else the attribute of that name, else undefined.
Result<Value> item(Runtime& runtime, const Value& object, const Value& key);
/// object[start:stop:step]. Fails where the object has no slices and for bounds that are no integers.
struct SliceBounds {
  Value start{None()}, stop{None()}, step{None()};
};
Result<Value> sliced(Runtime& runtime, const Value& object, const SliceBounds& bounds);
/// The error of using an undefined value.
Error undefined_error(const Value& value);

}  // namespace lamina::jinja
