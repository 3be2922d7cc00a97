#pragma once
// Python's two ways to format text: "%s" % x and "{}".format(x).

#include "text/jinja/native.h"

namespace lamina::jinja {

/// `arguments` is a tuple, a dict for %(name)s, or one value.
Result<Value> percent_format(Runtime& runtime, const Text& format, const Value& arguments);
/// str.format(); attributes and items of fields are reached as in expressions, never past the sandbox.
Result<Value> brace_format(Runtime& runtime, const Text& format, const Arguments& arguments);

}  // namespace lamina::jinja
