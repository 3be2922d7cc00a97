#include "text/jinja/operators.h"

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/format.h"
#include "text/jinja/print.h"

namespace lamina::jinja {
namespace {

using Operator = Arithmetic::Operator;

std::string_view spelling(Operator op) {
  constexpr std::string_view kSpellings[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSpellings[static_cast<int>(op)];
}

Error too_large() { return error("an integer of more than 127 bits"); }

Result<Value> integer_power(Integer base, Integer exponent) {
  if (exponent < 0) {
    if (base == 0) return error("0 to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Integer power = 1;
  while (true) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(power, base, &power)) return too_large();
    exponent /= 2;
    if (exponent == 0) return Value(power);
    if (__builtin_mul_overflow(base, base, &base)) return too_large();
  }
}

Result<Value> integer_arithmetic(Operator op, Integer left, Integer right) {
  Integer result = 0;
  switch (op) {
    case Operator::kAdd:
      return __builtin_add_overflow(left, right, &result) ? Result<Value>(too_large()) : Value(result);
    case Operator::kSubtract:
      return __builtin_sub_overflow(left, right, &result) ? Result<Value>(too_large()) : Value(result);
    case Operator::kMultiply:
      return __builtin_mul_overflow(left, right, &result) ? Result<Value>(too_large()) : Value(result);
    case Operator::kPower:
      return integer_power(left, right);
    default:
      break;
  }
  if (right == 0) return error("division by zero");
  if (op == Operator::kDivide) return Value(static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
  if (right == -1) return integer_arithmetic(Operator::kMultiply, op == Operator::kModulo ? 0 : left, -1);
  const bool down = left % right != 0 && (left < 0) != (right < 0);  // C++ cuts towards 0, Python down
  return Value(op == Operator::kModulo ? left % right + (down ? right : 0) : left / right - (down ? 1 : 0));
}

Result<Value> float_division(Operator op, double left, double right) {
  if (right == 0) return error("division by zero");
  if (op == Operator::kDivide) return Value(left / right);
  double modulo = std::fmod(left, right);
  double quotient = (left - modulo) / right;
  if (modulo != 0 && (right < 0) != (modulo < 0)) {
    modulo += right;
    quotient -= 1;
  }
  if (op == Operator::kModulo) return Value(modulo == 0 ? std::copysign(0.0, right) : modulo);
  return Value(quotient == 0 ? std::copysign(0.0, left / right) : std::round(quotient));
}

Result<Value> float_arithmetic(Operator op, double left, double right) {
  switch (op) {
    case Operator::kAdd:
      return Value(left + right);
    case Operator::kSubtract:
      return Value(left - right);
    case Operator::kMultiply:
      return Value(left * right);
    case Operator::kPower: {
      if (left == 0 && right < 0) return error("0 to a negative power");
      const double power = std::pow(left, right);
      if (!std::isfinite(power) && std::isfinite(left) && std::isfinite(right)) return error("the power is out of range");
      return Value(power);
    }
    default:
      return float_division(op, left, right);
  }
}

/// text + text: beside markup the other side is escaped.
Value joined(Runtime& runtime, const Text& left, const Text& right) {
  runtime.work_bytes(left.bytes.size() + right.bytes.size());
  TextBuilder out;
  const bool markup = left.markup || right.markup;
  out.add(markup ? escaped(runtime.heap(), left) : left);
  out.add(markup ? escaped(runtime.heap(), right) : right);
  return runtime.text(out, markup);
}

Result<Value> joined(Runtime& runtime, const List& left, const List& right) {
  std::vector<Value> items(left.items.begin(), left.items.end());
  items.insert(items.end(), right.items.begin(), right.items.end());
  return runtime.list(items, left.type);
}

bool can_repeat(const Value& value) {
  return value.text() != nullptr || (value.list() != nullptr && value.list()->type <= List::Type::kTuple);
}

Result<Value> repeated(Runtime& runtime, const Value& value, Integer times) {
  if (times < 0) times = 0;
  const Text* text = value.text();
  const size_t size = text != nullptr ? text->bytes.size() : value.list()->items.size() * sizeof(Value);
  LAMINA_TRY(runtime.room(static_cast<double>(times) * static_cast<double>(size)));
  if (size == 0) return value;
  if (text != nullptr) {
    TextBuilder out;
    for (; times > 0; --times) out.add(*text);
    runtime.work_bytes(out.size());
    return runtime.text(out, text->markup);
  }
  std::vector<Value> items;
  for (; times > 0; --times) items.insert(items.end(), value.list()->items.begin(), value.list()->items.end());
  return runtime.list(items, value.list()->type);
}

}  // namespace

Result<Value> arithmetic(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return integer_arithmetic(op, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return float_arithmetic(op, left.number(), right.number());
  if (op == Operator::kModulo && left.text() != nullptr) return percent_format(runtime, *left.text(), right);
  for (const Value* side : {&left, &right})
    if (side->is_undefined()) return undefined_error(*side);
  if (op == Operator::kAdd) {
    if (left.text() != nullptr && right.text() != nullptr) return joined(runtime, *left.text(), *right.text());
    const List *one = left.list(), *other = right.list();
    if (one != nullptr && other != nullptr && one->type == other->type && one->type <= List::Type::kTuple)
      return joined(runtime, *one, *other);
  }
  if (op == Operator::kMultiply) {
    if (can_repeat(left) && right.is_integral()) return repeated(runtime, left, right.integer());
    if (can_repeat(right) && left.is_integral()) return repeated(runtime, right, left.integer());
  }
  return error("'", spelling(op), "' between a ", type_name(left), " and a ", type_name(right));
}

Result<Value> negated(const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return integer_arithmetic(Operator::kSubtract, 0, value.integer());
  if (value.is_number()) return Value(-value.number());
  return error("'-' before a ", type_name(value));
}

Result<bool> compared(Runtime& runtime, Comparison::Operator op, const Value& left, const Value& right) {
  using C = Comparison::Operator;
  if (op == C::kEqual || op == C::kNotEqual) return equal(runtime, left, right) == (op == C::kEqual);
  if (op == C::kIn || op == C::kNotIn) {
    LAMINA_ASSIGN(const bool inside, contains(runtime, right, left));
    return inside == (op == C::kIn);
  }
  for (const Value* side : {&left, &right})
    if (side->is_undefined()) return undefined_error(*side);
  if (left.is_number() && right.is_number() && (std::isnan(left.number()) || std::isnan(right.number()))) return false;
  LAMINA_ASSIGN(const int sign, order(runtime, left, right));
  switch (op) {
    case C::kLess:
      return sign < 0;
    case C::kLessEqual:
      return sign <= 0;
    case C::kGreater:
      return sign > 0;
    default:
      return sign >= 0;
  }
}

}  // namespace lamina::jinja
