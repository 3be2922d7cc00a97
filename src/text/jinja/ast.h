#pragma once
// A parsed template. Immutable, so that threads can render it at once.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/value.h"

namespace lamina::jinja {

struct Native;
struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;  // null where a part may be left out
struct Statement;
using Body = std::vector<Statement>;
using NameId = int;  // place in Template::names

// ---- expressions ---------------------------------------------------------------------------------------------------------------

struct Constant {
  std::variant<std::monostate, bool, Integer, double, std::string> value;  // monostate: none
};
struct Variable {
  NameId name;
  std::string_view text;  // views Template::names
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Item {  // object[key]
  ExpressionPtr object, key;
};
struct Slice {  // object[start:stop:step]
  ExpressionPtr object, start, stop, step;
};
struct Keyword {
  std::string name;
  ExpressionPtr value;
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<Keyword> named;
  ExpressionPtr star, double_star;
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterCall {      // input|name(arguments)
  ExpressionPtr input;   // null: the text of a filter block
  const Native* filter;  // null: no such filter, an error once it is reached
  std::string name;
  CallArguments arguments;
};
struct TestCall {  // input is name(arguments)
  ExpressionPtr input;
  const Native* test;
  std::string name;
  CallArguments arguments;
};
struct Unary {
  enum class Operator { kMinus, kPlus, kNot };
  Operator op;
  ExpressionPtr operand;
};
/// Operators of one precedence, applied from the left.
struct Arithmetic {
  enum class Operator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
  ExpressionPtr first;
  std::vector<std::pair<Operator, ExpressionPtr>> rest;
};
struct Comparison {  // a < b < c means a < b and b < c
  enum class Operator { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
  ExpressionPtr first;
  std::vector<std::pair<Operator, ExpressionPtr>> rest;
};
struct Logic {  // and, or: the value that decides
  bool is_and;
  std::vector<ExpressionPtr> operands;
};
struct Concatenation {  // a ~ b
  std::vector<ExpressionPtr> parts;
};
struct Conditional {  // then if condition else otherwise
  ExpressionPtr then, condition, otherwise;
};
struct Sequence {  // [a, b] or (a, b)
  bool tuple;
  std::vector<ExpressionPtr> items;
};
struct Mapping {  // {a: b}
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

struct Expression {
  int line = 0;
  std::variant<Constant, Variable, Attribute, Item, Slice, Call, FilterCall, TestCall, Unary, Arithmetic, Comparison, Logic, Concatenation,
               Conditional, Sequence, Mapping>
      node;
};

// ---- statements ----------------------------------------------------------------------------------------------------------------

/// What a value is stored to: a variable, an attribute of a namespace, or several targets that share out the elements.
struct Target {
  NameId name = 0;
  std::string attribute;      // of the namespace `name`; empty: the variable itself
  std::vector<Target> parts;  // not empty: name and attribute mean nothing
};

struct Print {  // {{ value }}
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, test;
  bool recursive = false;
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // a chain of FilterCalls over the text of the block, or null
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Body body;
};
struct Parameter {
  NameId name;
  std::string text;
  ExpressionPtr otherwise;  // null: undefined when not given
};
struct Macro {
  std::string name;  // empty for the body of a call block
  NameId id = 0;
  std::vector<Parameter> parameters;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  Body body;
};
struct CallBlock {
  Call call;
  Macro caller;
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
};
struct Block {
  std::string name;
  Body body;
};
struct Group {  // a body whose variables stay in it
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<std::string_view, Print, If, For, Set, SetBlock, With, Macro, CallBlock, FilterBlock, Block, Group, Break, Continue> node;
};

/// Names of variables that the language itself sets.
enum WellKnownName : NameId { kLoopName, kCallerName, kVarargsName, kKwargsName, kSelfName, kWellKnownNames };

struct Template {
  std::string what;                                       // names it in errors
  std::string source;                                     // with \n as only line end; texts of the body view it
  std::vector<std::unique_ptr<const std::string>> names;  // by NameId
  Body body;
};

}  // namespace lamina::jinja
