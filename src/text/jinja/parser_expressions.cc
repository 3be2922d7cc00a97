// The expression rules of Parser, loosest binding first.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/native.h"
#include "text/jinja/parser.h"

namespace lamina::jinja {
namespace {

using A = Arithmetic::Operator;
using C = Comparison::Operator;

struct ComparisonSpelling {
  std::string_view text;
  C op;
};
constexpr ComparisonSpelling kComparisons[] = {{"==", C::kEqual},     {"!=", C::kNotEqual}, {"<", C::kLess},
                                               {"<=", C::kLessEqual}, {">", C::kGreater},   {">=", C::kGreaterEqual}};

template <class Spelling>
const Spelling* spelled(std::span<const Spelling> table, const Token& token) {
  if (token.type != Token::Type::kOperator) return nullptr;
  const auto found = std::ranges::find(table, token.text, &Spelling::text);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

Result<ExpressionPtr> Parser::expression() {
  const Nested nested(depth_);
  if (nested.too_deep()) return nested_too_deep();
  const size_t unknowns = unknowns_.size();
  LAMINA_ASSIGN(ExpressionPtr value, logic_or());
  for (int links = 0; is_word("if"); ++links) {
    if (links == kMaxNesting) return nested_too_deep();
    Conditional node{.then = std::move(value)};
    const int at_line = line();
    advance();
    LAMINA_ASSIGN(node.condition, logic_or());
    if (skip_word("else")) {
      LAMINA_ASSIGN(node.otherwise, expression());
    }
    value = make(at_line, std::move(node));
    unknowns_.resize(unknowns);
  }
  return value;
}

bool Parser::tuple_ends() const { return is(Token::Type::kPrintEnd) || is(Token::Type::kTagEnd) || is_op(")") || is_word("recursive"); }

/// One expression, or several with commas as a tuple.
Result<ExpressionPtr> Parser::tuple(bool with_condition, bool in_parentheses) {
  const Nested nested(depth_);
  if (nested.too_deep()) return nested_too_deep();
  const int at_line = line();
  Sequence out{.tuple = true};
  bool comma = false;
  while (!tuple_ends()) {
    LAMINA_ASSIGN(out.items.emplace_back(), with_condition ? expression() : logic_or());
    if (!skip_op(",")) break;
    comma = true;
  }
  if (comma || (out.items.empty() && in_parentheses)) return make(at_line, std::move(out));
  if (out.items.empty()) return fail("expected an expression, found ", describe(current()));
  return std::move(out.items.front());
}

Result<ExpressionPtr> Parser::logic_or() {
  LAMINA_ASSIGN(ExpressionPtr first, logic_and());
  if (!is_word("or")) return first;
  const int at_line = line();
  Logic out{.is_and = false};
  out.operands.push_back(std::move(first));
  while (skip_word("or")) {
    LAMINA_ASSIGN(out.operands.emplace_back(), logic_and());
  }
  return make(at_line, std::move(out));
}

Result<ExpressionPtr> Parser::logic_and() {
  LAMINA_ASSIGN(ExpressionPtr first, negation());
  if (!is_word("and")) return first;
  const int at_line = line();
  Logic out{.is_and = true};
  out.operands.push_back(std::move(first));
  while (skip_word("and")) {
    LAMINA_ASSIGN(out.operands.emplace_back(), negation());
  }
  return make(at_line, std::move(out));
}

Result<ExpressionPtr> Parser::negation() {
  if (!is_word("not")) return comparison();
  const Nested nested(depth_);
  if (nested.too_deep()) return nested_too_deep();
  const int at_line = line();
  advance();
  LAMINA_ASSIGN(ExpressionPtr operand, negation());
  return make(at_line, Unary{Unary::Operator::kNot, std::move(operand)});
}

Result<ExpressionPtr> Parser::comparison() {
  LAMINA_ASSIGN(ExpressionPtr first, sum());
  const int at_line = line();
  Comparison out;
  while (true) {
    C op = C::kIn;
    if (const auto* found = spelled<ComparisonSpelling>(kComparisons, current())) {
      op = found->op;
    } else if (is_word("not") && following().type == Token::Type::kName && following().text == "in") {
      op = C::kNotIn;
      advance();
    } else if (!is_word("in")) {
      break;
    }
    advance();
    LAMINA_ASSIGN(ExpressionPtr operand, sum());
    out.rest.emplace_back(op, std::move(operand));
  }
  if (out.rest.empty()) return first;
  out.first = std::move(first);
  return make(at_line, std::move(out));
}

Result<ExpressionPtr> Parser::arithmetic(std::span<const Spelling> operators, Rule operand) {
  LAMINA_ASSIGN(ExpressionPtr first, (this->*operand)());
  const int at_line = line();
  Arithmetic out;
  while (const auto* found = spelled(operators, current())) {
    advance();
    LAMINA_ASSIGN(ExpressionPtr next, (this->*operand)());
    out.rest.emplace_back(found->op, std::move(next));
  }
  if (out.rest.empty()) return first;
  out.first = std::move(first);
  return make(at_line, std::move(out));
}

Result<ExpressionPtr> Parser::sum() {
  constexpr Spelling kOperators[] = {{"+", A::kAdd}, {"-", A::kSubtract}};
  return arithmetic(kOperators, &Parser::concatenation);
}

Result<ExpressionPtr> Parser::product() {
  constexpr Spelling kOperators[] = {{"*", A::kMultiply}, {"/", A::kDivide}, {"//", A::kFloorDivide}, {"%", A::kModulo}};
  return arithmetic(kOperators, &Parser::power);
}

Result<ExpressionPtr> Parser::power() {
  constexpr Spelling kOperators[] = {{"**", A::kPower}};
  return arithmetic(kOperators, &Parser::filtered_unary);
}

Result<ExpressionPtr> Parser::concatenation() {
  LAMINA_ASSIGN(ExpressionPtr first, product());
  if (!is_op("~")) return first;
  const int at_line = line();
  Concatenation out;
  out.parts.push_back(std::move(first));
  while (skip_op("~")) {
    LAMINA_ASSIGN(out.parts.emplace_back(), product());
  }
  return make(at_line, std::move(out));
}

/// A sign binds tighter than ** and filters: -2 ** 2 is 4, -3|abs is 3.
Result<ExpressionPtr> Parser::unary(bool with_filters) {
  const Nested nested(depth_);
  if (nested.too_deep()) return nested_too_deep();
  const int at_line = line();
  ExpressionPtr value;
  if (is_op("-") || is_op("+")) {
    const auto op = is_op("-") ? Unary::Operator::kMinus : Unary::Operator::kPlus;
    advance();
    LAMINA_ASSIGN(ExpressionPtr operand, unary(false));
    value = make(at_line, Unary{op, std::move(operand)});
  } else {
    LAMINA_ASSIGN(value, primary());
  }
  LAMINA_ASSIGN(value, postfix(std::move(value)));
  return with_filters ? filters(std::move(value)) : Result<ExpressionPtr>(std::move(value));
}

/// .name, [key] and (arguments), any number.
Result<ExpressionPtr> Parser::postfix(ExpressionPtr object) {
  for (int links = 0; is_op(".") || is_op("[") || is_op("("); ++links) {
    if (links == kMaxNesting) return nested_too_deep();
    const int at_line = line();
    if (is_op("(")) {
      Call call{.callee = std::move(object)};
      LAMINA_ASSIGN(call.arguments, call_arguments());
      object = make(at_line, std::move(call));
    } else if (is_op(".")) {
      LAMINA_ASSIGN(object, dotted(std::move(object)));
    } else {
      LAMINA_ASSIGN(object, subscript(std::move(object)));
    }
  }
  return object;
}

Result<ExpressionPtr> Parser::dotted(ExpressionPtr object) {
  const int at_line = line();
  advance();
  if (is(Token::Type::kInteger)) {
    LAMINA_ASSIGN(ExpressionPtr key, number_expression());
    return make(at_line, Item{std::move(object), std::move(key)});
  }
  LAMINA_ASSIGN(const std::string_view name, expect_name());
  return make(at_line, Attribute{std::move(object), std::string(name)});
}

Result<ExpressionPtr> Parser::subscript(ExpressionPtr object) {
  const int at_line = line();
  advance();
  ExpressionPtr start;
  if (!is_op(":")) {
    LAMINA_ASSIGN(start, subscript_key());
  }
  if (!is_op(":")) {
    LAMINA_TRY(expect_op("]"));
    return make(at_line, Item{std::move(object), std::move(start)});
  }
  Slice out{.object = std::move(object), .start = std::move(start)};
  for (ExpressionPtr* bound : {&out.stop, &out.step}) {
    if (!skip_op(":")) break;
    if (is_op("]") || is_op(":")) continue;
    LAMINA_ASSIGN(*bound, expression());
  }
  LAMINA_TRY(expect_op("]"));
  return make(at_line, std::move(out));
}

/// key, or key, key as a tuple.
Result<ExpressionPtr> Parser::subscript_key() {
  const int at_line = line();
  LAMINA_ASSIGN(ExpressionPtr first, expression());
  if (!is_op(",")) return first;
  Sequence out{.tuple = true};
  out.items.push_back(std::move(first));
  while (skip_op(",") && !is_op("]")) {
    LAMINA_ASSIGN(out.items.emplace_back(), expression());
  }
  return make(at_line, std::move(out));
}

Result<ExpressionPtr> Parser::filters(ExpressionPtr input) {
  for (int links = 0; is_op("|") || is_word("is") || is_op("("); ++links) {
    if (links == kMaxNesting) return nested_too_deep();
    if (is_op("|")) {
      advance();
      LAMINA_ASSIGN(input, filter(std::move(input)));
    } else if (is_op("(")) {
      LAMINA_ASSIGN(input, postfix(std::move(input)));
    } else {
      LAMINA_ASSIGN(input, test(std::move(input)));
    }
  }
  return input;
}

/// |a|b(c) after `input`.
Result<ExpressionPtr> Parser::filter_chain(ExpressionPtr input) {
  for (int links = 0; skip_op("|"); ++links) {
    if (links == kMaxNesting) return nested_too_deep();
    LAMINA_ASSIGN(input, filter(std::move(input)));
  }
  return input;
}

Result<std::string> Parser::dotted_name() {
  LAMINA_ASSIGN(const std::string_view first, expect_name());
  std::string name(first);
  while (skip_op(".")) {
    LAMINA_ASSIGN(const std::string_view next, expect_name());
    name += '.', name += next;
  }
  return name;
}

Result<ExpressionPtr> Parser::filter(ExpressionPtr input) {
  const Token start = current();
  FilterCall out{.input = std::move(input)};
  LAMINA_ASSIGN(out.name, dotted_name());
  out.filter = find_filter(out.name);
  if (out.filter == nullptr) unknowns_.push_back(source_.fail(start.offset, "there is no filter named '", out.name, "'"));
  if (is_op("(")) {
    LAMINA_ASSIGN(out.arguments, call_arguments());
  }
  return make(start.line, std::move(out));
}

/// Whether what stands here is the argument of a test without parentheses: "9 is divisibleby 3".
bool Parser::begins_test_argument() const {
  if (is(Token::Type::kString) || is(Token::Type::kInteger) || is(Token::Type::kFloat) || is_op("[") || is_op("{")) return true;
  return is(Token::Type::kName) && !is_word("else") && !is_word("or") && !is_word("and");
}

Result<ExpressionPtr> Parser::test(ExpressionPtr input) {
  const Token start = current();
  const int at_line = line();
  advance();
  const bool negated = skip_word("not");
  TestCall out{.input = std::move(input)};
  LAMINA_ASSIGN(out.name, dotted_name());
  out.test = find_test(out.name);
  if (out.test == nullptr) unknowns_.push_back(source_.fail(start.offset, "there is no test named '", out.name, "'"));
  if (is_op("(")) {
    LAMINA_ASSIGN(out.arguments, call_arguments());
  } else if (is_word("is")) {
    return fail("tests cannot be chained with 'is'");
  } else if (begins_test_argument()) {
    LAMINA_ASSIGN(ExpressionPtr argument, primary());
    LAMINA_ASSIGN(out.arguments.positional.emplace_back(), postfix(std::move(argument)));
  }
  ExpressionPtr value = make(at_line, std::move(out));
  return negated ? make(at_line, Unary{Unary::Operator::kNot, std::move(value)}) : std::move(value);
}

Result<CallArguments> Parser::call_arguments() {
  advance();
  CallArguments arguments;
  while (!is_op(")")) {
    LAMINA_TRY(call_argument(arguments));
    if (!is_op(")")) LAMINA_TRY(expect_op(","));
  }
  advance();
  return arguments;
}

Status Parser::call_argument(CallArguments& arguments) {
  if (is_op("*") || is_op("**")) {
    ExpressionPtr& place = is_op("*") ? arguments.star : arguments.double_star;
    if (place != nullptr || arguments.double_star != nullptr) return fail("'", current().text, "' cannot stand here in a call");
    advance();
    LAMINA_ASSIGN(place, expression());
    return {};
  }
  if (is(Token::Type::kName) && following().type == Token::Type::kOperator && following().text == "=") {
    if (arguments.double_star != nullptr) return fail("an argument cannot follow '**'");
    Keyword keyword{.name = std::string(current().text)};
    advance(), advance();
    LAMINA_ASSIGN(keyword.value, expression());
    arguments.named.push_back(std::move(keyword));
    return {};
  }
  if (!arguments.named.empty() || arguments.star != nullptr || arguments.double_star != nullptr)
    return fail("an argument without a name cannot follow one with a name");
  LAMINA_ASSIGN(arguments.positional.emplace_back(), expression());
  return {};
}

}  // namespace lamina::jinja
