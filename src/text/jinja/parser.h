#pragma once
// From source to a parsed template.

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/limits.h"

namespace lamina::jinja {

/// `source` is valid UTF-8; `what` names it in errors, which give line and column.
Result<std::unique_ptr<const Template>> parse_template(std::string_view source, std::string_view what);

/// The grammar, one function a rule. Used through parse_template.
class Parser {
 public:
  Parser(Template& out, const Source& source, std::vector<Token> tokens);
  Status run();

 private:
  // Statements (parser.cc).
  using EndTags = std::initializer_list<std::string_view>;
  Result<Body> body_until(EndTags ends);
  Status body_item(Body& body);
  Result<Body> block_body(EndTags ends);
  Result<Statement> statement();
  Result<Statement> statement_named(std::string_view name);
  Result<Statement> if_statement();
  Result<Statement> for_statement();
  Result<Statement> set_statement();
  Result<Statement> with_statement();
  Result<Statement> macro_statement();
  Result<Statement> call_statement();
  Result<Statement> filter_statement();
  Result<Statement> block_statement();
  Result<Statement> group_statement(std::string_view end);
  Result<Statement> loop_exit(bool is_break);
  Status parameters(Macro& macro);
  Result<Body> macro_body(Macro& macro, std::string_view end);
  Result<Target> target(bool tuple, bool attribute);
  Result<Target> single_target(bool attribute);

  // Expressions (parser_expressions.cc).
  Result<ExpressionPtr> expression();
  Result<ExpressionPtr> tuple(bool with_condition, bool in_parentheses);
  bool tuple_ends() const;
  Result<ExpressionPtr> logic_or();
  Result<ExpressionPtr> logic_and();
  Result<ExpressionPtr> negation();
  Result<ExpressionPtr> comparison();
  struct Spelling {
    std::string_view text;
    Arithmetic::Operator op;
  };
  using Rule = Result<ExpressionPtr> (Parser::*)();
  Result<ExpressionPtr> arithmetic(std::span<const Spelling> operators, Rule operand);
  Result<ExpressionPtr> sum();
  Result<ExpressionPtr> concatenation();
  Result<ExpressionPtr> product();
  Result<ExpressionPtr> power();
  Result<ExpressionPtr> filtered_unary() { return unary(true); }
  Result<ExpressionPtr> unary(bool with_filters);
  Result<ExpressionPtr> primary();
  Result<ExpressionPtr> name_expression();
  Result<ExpressionPtr> string_expression();
  Result<ExpressionPtr> number_expression();
  Result<ExpressionPtr> list_display();
  Result<ExpressionPtr> dict_display();
  Result<ExpressionPtr> postfix(ExpressionPtr object);
  Result<ExpressionPtr> subscript(ExpressionPtr object);
  Result<ExpressionPtr> subscript_key();
  Result<ExpressionPtr> dotted(ExpressionPtr object);
  Result<ExpressionPtr> filters(ExpressionPtr input);
  Result<ExpressionPtr> filter(ExpressionPtr input);
  Result<ExpressionPtr> filter_chain(ExpressionPtr input);
  Result<ExpressionPtr> test(ExpressionPtr input);
  Result<CallArguments> call_arguments();
  Status call_argument(CallArguments& arguments);
  Result<std::string> dotted_name();
  Result<std::string> unescaped(const Token& token) const;
  Status escape(const Token& token, size_t& at, std::string& out) const;
  bool begins_test_argument() const;

  template <class Node>
  ExpressionPtr make(int line, Node node) {
    return std::make_unique<Expression>(Expression{line, std::move(node)});
  }
  NameId name_id(std::string_view name);

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void advance() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  bool is(Token::Type type) const { return current().type == type; }
  bool is_op(std::string_view op) const { return is(Token::Type::kOperator) && current().text == op; }
  bool is_word(std::string_view word) const { return is(Token::Type::kName) && current().text == word; }
  bool skip_op(std::string_view op);
  bool skip_word(std::string_view word);
  Status expect_op(std::string_view op);
  Status expect(Token::Type type, std::string_view what);
  Result<std::string_view> expect_name();
  int line() const { return current().line; }
  template <class... Pieces>
  Error fail(const Pieces&... pieces) const {
    return source_.fail(current().offset, pieces...);
  }

  /// Counts nesting while it lives.
  class Nested {
   public:
    explicit Nested(int& depth) : depth_(depth) { ++depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --depth_; }
    bool too_deep() const { return depth_ > kMaxNesting; }

   private:
    int& depth_;
  };
  Error nested_too_deep() const { return fail("more than ", kMaxNesting, " expressions or statements inside one another"); }

  Template& out_;
  const Source source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::unordered_map<std::string_view, NameId> ids_;
  std::vector<std::string> block_names_;
  std::vector<Macro*> macros_;  // being parsed, innermost last
  int depth_ = 0;
  int loops_ = 0;                // around this place, inside its macro
  std::vector<Error> unknowns_;  // filters and tests that do not exist; what may not be reached is forgiven
};

}  // namespace lamina::jinja
