// The expressions of Interpreter.
#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace lamina::jinja {

Result<Value> Interpreter::evaluate(const Expression& expression, Scope& scope) {
  runtime_.work(1);
  if (runtime_.exhausted()) return runtime_.check().error();
  if (++depth_ > kMaxDepth) return error("more than ", kMaxDepth, " evaluations inside one another");
  Result<Value> value = std::visit([&](const auto& node) { return value_of(node, scope); }, expression.node);
  --depth_;
  if (!value.ok() && fault_line_ == 0) fault_line_ = expression.line;
  return value;
}

Result<Value> Interpreter::value_of(const Constant& node, Scope&) {
  if (const auto* text = std::get_if<std::string>(&node.value)) return runtime_.text(*text);
  if (const auto* flag = std::get_if<bool>(&node.value)) return Value(*flag);
  if (const auto* integer = std::get_if<Integer>(&node.value)) return Value(*integer);
  if (const auto* number = std::get_if<double>(&node.value)) return Value(*number);
  return Value(None());
}

const Value* Interpreter::lookup(NameId name, const Scope& scope) const {
  for (const Scope* at = &scope; at != nullptr; at = at->outer)
    if (const Value* value = at->find(name)) return value;
  const std::optional<Value>& global = globals_[static_cast<size_t>(name)];
  return global ? &*global : nullptr;
}

Result<Value> Interpreter::value_of(const Variable& node, Scope& scope) {
  const Value* value = lookup(node.name, scope);
  return value != nullptr ? *value : runtime_.undefined("", node.text);
}

Result<Value> Interpreter::value_of(const Attribute& node, Scope& scope) {
  LAMINA_ASSIGN(const Value object, evaluate(*node.object, scope));
  return attribute(runtime_, object, node.name);
}

Result<Value> Interpreter::value_of(const Item& node, Scope& scope) {
  LAMINA_ASSIGN(const Value object, evaluate(*node.object, scope));
  LAMINA_ASSIGN(const Value key, evaluate(*node.key, scope));
  return item(runtime_, object, key);
}

Result<Value> Interpreter::value_of(const Slice& node, Scope& scope) {
  LAMINA_ASSIGN(const Value object, evaluate(*node.object, scope));
  SliceBounds bounds;
  const std::pair<const ExpressionPtr*, Value*> parts[] = {
      {&node.start, &bounds.start}, {&node.stop, &bounds.stop}, {&node.step, &bounds.step}};
  for (const auto& [expression, bound] : parts) {
    if (*expression == nullptr) continue;
    LAMINA_ASSIGN(*bound, evaluate(**expression, scope));
  }
  return sliced(runtime_, object, bounds);
}

Result<Value> Interpreter::value_of(const Call& node, Scope& scope) {
  LAMINA_ASSIGN(const Value callee, evaluate(*node.callee, scope));
  LAMINA_ASSIGN(const Given given, arguments_of(node.arguments, scope));
  return call_value(callee, given.view());
}

Result<Value> Interpreter::value_of(const FilterCall& node, Scope& scope) {
  LAMINA_ASSIGN(const Value input, evaluate(*node.input, scope));
  if (node.filter == nullptr) return error("there is no filter named '", node.name, "'");
  LAMINA_ASSIGN(const Given given, arguments_of(node.arguments, scope));
  return jinja::call(runtime_, *node.filter, input, given.view());
}

Result<Value> Interpreter::value_of(const TestCall& node, Scope& scope) {
  LAMINA_ASSIGN(const Value input, evaluate(*node.input, scope));
  if (node.test == nullptr) return error("there is no test named '", node.name, "'");
  LAMINA_ASSIGN(const Given given, arguments_of(node.arguments, scope));
  return jinja::call(runtime_, *node.test, input, given.view());
}

Result<Value> Interpreter::value_of(const Unary& node, Scope& scope) {
  LAMINA_ASSIGN(const Value operand, evaluate(*node.operand, scope));
  switch (node.op) {
    case Unary::Operator::kNot:
      return Value(!truthy(operand));
    case Unary::Operator::kMinus:
      return negated(operand);
    case Unary::Operator::kPlus:
      return arithmetic(runtime_, Arithmetic::Operator::kAdd, Value(Integer{0}), operand);
  }
  return operand;
}

Result<Value> Interpreter::value_of(const Arithmetic& node, Scope& scope) {
  LAMINA_ASSIGN(Value value, evaluate(*node.first, scope));
  for (const auto& [op, expression] : node.rest) {
    LAMINA_ASSIGN(const Value operand, evaluate(*expression, scope));
    LAMINA_ASSIGN(value, arithmetic(runtime_, op, value, operand));
  }
  return value;
}

Result<Value> Interpreter::value_of(const Comparison& node, Scope& scope) {
  LAMINA_ASSIGN(Value left, evaluate(*node.first, scope));
  for (const auto& [op, expression] : node.rest) {
    LAMINA_ASSIGN(const Value right, evaluate(*expression, scope));
    LAMINA_ASSIGN(const bool holds, compared(runtime_, op, left, right));
    if (!holds) return Value(false);
    left = right;
  }
  return Value(true);
}

Result<Value> Interpreter::value_of(const Logic& node, Scope& scope) {
  Value value;
  for (const ExpressionPtr& operand : node.operands) {
    LAMINA_ASSIGN(value, evaluate(*operand, scope));
    if (truthy(value) != node.is_and) break;
  }
  return value;
}

Result<Value> Interpreter::value_of(const Concatenation& node, Scope& scope) {
  TextBuilder out;
  for (const ExpressionPtr& part : node.parts) {
    LAMINA_ASSIGN(const Value value, evaluate(*part, scope));
    LAMINA_TRY(print(runtime_, value, out));
    LAMINA_TRY(runtime_.room(static_cast<double>(out.size())));
  }
  return runtime_.text(out);
}

Result<Value> Interpreter::value_of(const Conditional& node, Scope& scope) {
  LAMINA_ASSIGN(const Value condition, evaluate(*node.condition, scope));
  if (truthy(condition)) return evaluate(*node.then, scope);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise, scope);
  return runtime_.undefined("", "the missing 'else' of an inline if");
}

Result<Value> Interpreter::value_of(const Sequence& node, Scope& scope) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& expression : node.items) {
    LAMINA_ASSIGN(items.emplace_back(), evaluate(*expression, scope));
  }
  return runtime_.list(items, node.tuple ? List::Type::kTuple : List::Type::kList);
}

Result<Value> Interpreter::value_of(const Mapping& node, Scope& scope) {
  std::vector<Dict::Entry> entries;
  for (const auto& [key_expression, value_expression] : node.entries) {
    LAMINA_ASSIGN(const Value key, evaluate(*key_expression, scope));
    LAMINA_ASSIGN(const Value value, evaluate(*value_expression, scope));
    entries.push_back({key, value});
  }
  return runtime_.dict(std::move(entries));
}

}  // namespace lamina::jinja
