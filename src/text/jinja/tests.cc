// The tests of "x is ...".
#include <algorithm>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/methods.h"
#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace lamina::jinja {
namespace {

template <bool (*holds)(const Value&)>
Result<Value> is(Runtime&, const Value& self, const Bound&) {
  return Value(holds(self));
}

bool is_boolean(const Value& value) { return value.kind() == Value::Kind::kBool; }
bool is_true(const Value& value) { return is_boolean(value) && value.as<bool>(); }
bool is_false(const Value& value) { return is_boolean(value) && !value.as<bool>(); }
bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_integer(const Value& value) { return value.kind() == Value::Kind::kInteger; }
bool is_float(const Value& value) { return value.kind() == Value::Kind::kFloat; }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.text() != nullptr; }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_escaped(const Value& value) { return value.text() != nullptr && value.text()->markup; }
bool is_callable(const Value& value) {
  return value.is_undefined() || value.function() != nullptr || value.loop() != nullptr || value.kind() == Value::Kind::kJoiner;
}
bool has_elements(const Value& value) { return value.is_undefined() || value.dict() != nullptr || is_sequence(value); }
bool is_iterable(const Value& value) {
  return has_elements(value) || value.list() != nullptr || value.iterator() != nullptr || value.loop() != nullptr;
}

template <Comparison::Operator op>
Result<Value> compares(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const bool holds, compared(runtime, op, self, arguments.value(0)));
  return Value(holds);
}

Result<Value> modulo(Runtime& runtime, const Value& self, const Value& divisor) {
  return arithmetic(runtime, Arithmetic::Operator::kModulo, self, divisor);
}

template <int rest>
Result<Value> leaves(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const Value left, modulo(runtime, self, Value(Integer{2})));
  return Value(equal(runtime, left, Value(Integer{rest})));
}

Result<Value> divisible_by(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Value left, modulo(runtime, self, arguments.value(0)));
  return Value(equal(runtime, left, Value(Integer{0})));
}

template <bool upper>
Result<Value> in_case(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* text, to_text(runtime, self));
  return find_text_method(upper ? "isupper" : "islower")->run(runtime, Value(text), arguments);
}

template <const Native* (*find)(std::string_view)>
Result<Value> is_known(Runtime&, const Value& self, const Bound&) {
  return Value(self.text() != nullptr && find(self.text()->bytes) != nullptr);
}

/// Identity: scalars of one type by value, containers by place.
Result<Value> same_as(Runtime& runtime, const Value& self, const Bound& arguments) {
  const Value& other = arguments.value(0);
  if (self.kind() != other.kind()) return Value(false);
  if (self.list() != nullptr) return Value(self.list() == other.list());
  if (self.dict() != nullptr) return Value(self.dict() == other.dict());
  return Value(equal(runtime, self, other));
}

using C = Comparison::Operator;
constexpr Native kTests[] = {
    {"!=", compares<C::kNotEqual>, 1, {"other"}},
    {"<", compares<C::kLess>, 1, {"other"}},
    {"<=", compares<C::kLessEqual>, 1, {"other"}},
    {"==", compares<C::kEqual>, 1, {"other"}},
    {">", compares<C::kGreater>, 1, {"other"}},
    {">=", compares<C::kGreaterEqual>, 1, {"other"}},
    {"boolean", is<is_boolean>},
    {"callable", is<is_callable>},
    {"defined", is<is_defined>},
    {"divisibleby", divisible_by, 1, {"num"}},
    {"eq", compares<C::kEqual>, 1, {"other"}},
    {"equalto", compares<C::kEqual>, 1, {"other"}},
    {"escaped", is<is_escaped>},
    {"even", leaves<0>},
    {"false", is<is_false>},
    {"filter", is_known<find_filter>},
    {"float", is<is_float>},
    {"ge", compares<C::kGreaterEqual>, 1, {"other"}},
    {"greaterthan", compares<C::kGreater>, 1, {"other"}},
    {"gt", compares<C::kGreater>, 1, {"other"}},
    {"in", compares<C::kIn>, 1, {"seq"}},
    {"integer", is<is_integer>},
    {"iterable", is<is_iterable>},
    {"le", compares<C::kLessEqual>, 1, {"other"}},
    {"lessthan", compares<C::kLess>, 1, {"other"}},
    {"lower", in_case<false>},
    {"lt", compares<C::kLess>, 1, {"other"}},
    {"mapping", is<is_mapping>},
    {"ne", compares<C::kNotEqual>, 1, {"other"}},
    {"none", is<is_none>},
    {"number", is<is_number>},
    {"odd", leaves<1>},
    {"sameas", same_as, 1, {"other"}},
    {"sequence", is<has_elements>},
    {"string", is<is_string>},
    {"test", is_known<find_test>},
    {"true", is<is_true>},
    {"undefined", is<is_undefined>},
    {"upper", in_case<true>},
};
static_assert(sorted_by_name(kTests));

}  // namespace

const Native* find_test(std::string_view name) { return find_native(kTests, name); }

}  // namespace lamina::jinja
