#pragma once
// Values as Python prints them.

#include <string>

#include "text/jinja/runtime.h"

namespace lamina::jinja {

std::string integer_text(Integer value);
/// repr() of a float: 1.0, 1e-07, 1e+16, inf.
std::string float_text(double value);

/// str(value). Fails for what Python prints with an address: functions, generators, namespaces.
Status print(Runtime& runtime, const Value& value, TextBuilder& out);
/// repr(value): text in quotes.
Status print_repr(Runtime& runtime, const Value& value, TextBuilder& out);
/// str(value) as a value; text stays what it is.
Result<const Text*> to_text(Runtime& runtime, const Value& value);

/// `text` with & < > " ' as entities, marked as markup; markup stays what it is.
Text escaped(Heap& heap, const Text& text);

}  // namespace lamina::jinja
