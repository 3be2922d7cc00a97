#pragma once
// Equality, order and membership as Python defines them.

#include "text/jinja/runtime.h"

namespace lamina::jinja {

/// ==. Numbers compare by value over their types (1 == 1.0 == True), lists and dicts by content, undefined equals undefined.
bool equal(Runtime& runtime, const Value& left, const Value& right);
/// Negative, 0 or positive; NaN is equal to everything here. Fails for values without an order.
Result<int> order(Runtime& runtime, const Value& left, const Value& right);
/// `item in container`. Consumes of an iterator what it passes.
Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);

/// Elements in order: of text its characters, of a dict its keys; takes all that is left of an iterator. Fails for what has no elements.
Result<std::span<const Value>> elements(Runtime& runtime, const Value& value);
/// len(): fails for what has none.
Result<int64_t> length(const Value& value);
/// Element of a range, or of text, list: requires 0 <= index < length.
Value element(Runtime& runtime, const Value& sequence, int64_t index);

}  // namespace lamina::jinja
