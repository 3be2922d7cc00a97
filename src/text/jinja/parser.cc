#include "text/jinja/parser.h"

#include <algorithm>

#include "base/utf8.h"

namespace lamina::jinja {

Parser::Parser(Template& out, const Source& source, std::vector<Token> tokens) : out_(out), source_(source), tokens_(std::move(tokens)) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs", "self"}) name_id(name);  // in the order of WellKnownName
}

NameId Parser::name_id(std::string_view name) {
  if (const auto known = ids_.find(name); known != ids_.end()) return known->second;
  const auto id = static_cast<NameId>(out_.names.size());
  out_.names.push_back(std::make_unique<const std::string>(name));
  ids_.emplace(*out_.names.back(), id);
  return id;
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  advance();
  return true;
}

bool Parser::skip_word(std::string_view word) {
  if (!is_word(word)) return false;
  advance();
  return true;
}

Status Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) return fail("expected '", op, "', found ", describe(current()));
  return {};
}

Status Parser::expect(Token::Type type, std::string_view what) {
  if (!is(type)) return fail("expected ", what, ", found ", describe(current()));
  advance();
  return {};
}

Result<std::string_view> Parser::expect_name() {
  if (!is(Token::Type::kName)) return fail("expected a name, found ", describe(current()));
  const std::string_view name = current().text;
  advance();
  return name;
}

Status Parser::run() {
  LAMINA_ASSIGN(out_.body, body_until({}));
  if (!unknowns_.empty()) return unknowns_.front();
  return {};
}

/// Up to a tag that begins with one of `ends`, whose name is then current; or to the end of the template when there are none.
Result<Body> Parser::body_until(EndTags ends) {
  const Nested nested(depth_);
  if (nested.too_deep()) return nested_too_deep();
  const size_t begin = current().offset;
  Body body;
  while (!is(Token::Type::kEnd)) {
    if (is(Token::Type::kTagBegin) && following().type == Token::Type::kName &&
        std::find(ends.begin(), ends.end(), following().text) != ends.end()) {
      advance();
      return body;
    }
    LAMINA_TRY(body_item(body));
  }
  if (ends.size() > 0) return source_.fail(begin, "the template ends before '", *(ends.end() - 1), "'");
  return body;
}

Status Parser::body_item(Body& body) {
  const int at_line = line();
  if (is(Token::Type::kText)) {
    body.push_back({at_line, current().text});
    advance();
    return {};
  }
  if (is(Token::Type::kPrintBegin)) {
    advance();
    LAMINA_ASSIGN(ExpressionPtr value, tuple(true, false));
    LAMINA_TRY(expect(Token::Type::kPrintEnd, "'}}'"));
    body.push_back({at_line, Print{std::move(value)}});
    return {};
  }
  LAMINA_TRY(expect(Token::Type::kTagBegin, "text or a tag"));
  LAMINA_ASSIGN(Statement parsed, statement());
  parsed.line = at_line;
  LAMINA_TRY(expect(Token::Type::kTagEnd, "'%}'"));
  body.push_back(std::move(parsed));
  return {};
}

/// The rest of an opening tag and its body; the name of the tag that ends it is current.
Result<Body> Parser::block_body(EndTags ends) {
  skip_op(":");
  LAMINA_TRY(expect(Token::Type::kTagEnd, "'%}'"));
  return body_until(ends);
}

Result<Statement> Parser::statement() {
  const Token name = current();
  LAMINA_ASSIGN(const std::string_view text, expect_name());
  Result<Statement> parsed = statement_named(text);
  if (parsed.ok() || !parsed.error().message.empty()) return parsed;
  for (const std::string_view other : {"include", "import", "from", "extends"}) {
    if (text == other) return source_.fail(name.offset, "'", text, "' is not supported: a chat template has no other files");
  }
  return source_.fail(name.offset, "unknown tag '", text, "'");
}

/// An empty error: no such tag.
Result<Statement> Parser::statement_named(std::string_view name) {
  if (name == "if") return if_statement();
  if (name == "for") return for_statement();
  if (name == "set") return set_statement();
  if (name == "with") return with_statement();
  if (name == "macro") return macro_statement();
  if (name == "call") return call_statement();
  if (name == "filter") return filter_statement();
  if (name == "block") return block_statement();
  if (name == "generation") return group_statement("endgeneration");
  if (name == "break" || name == "continue") return loop_exit(name == "break");
  if (name == "print") {
    LAMINA_ASSIGN(ExpressionPtr value, tuple(true, false));
    return Statement{0, Print{std::move(value)}};
  }
  return Error{};
}

Result<Statement> Parser::if_statement() {
  const size_t unknowns = unknowns_.size();
  If out;
  do {
    LAMINA_ASSIGN(ExpressionPtr condition, tuple(false, false));
    LAMINA_ASSIGN(Body body, block_body({"elif", "else", "endif"}));
    out.branches.emplace_back(std::move(condition), std::move(body));
  } while (skip_word("elif"));
  if (skip_word("else")) {
    LAMINA_ASSIGN(out.otherwise, block_body({"endif"}));
  }
  advance();
  unknowns_.resize(unknowns);
  return Statement{0, std::move(out)};
}

Result<Statement> Parser::for_statement() {
  For out;
  LAMINA_ASSIGN(out.target, target(true, false));
  if (!skip_word("in")) return fail("expected 'in', found ", describe(current()));
  LAMINA_ASSIGN(out.iterable, tuple(false, false));
  if (skip_word("if")) {
    LAMINA_ASSIGN(out.test, expression());
  }
  out.recursive = skip_word("recursive");
  {
    const Nested loop(loops_);
    LAMINA_ASSIGN(out.body, block_body({"else", "endfor"}));
  }
  if (skip_word("else")) {
    LAMINA_ASSIGN(out.otherwise, block_body({"endfor"}));
  }
  advance();
  return Statement{0, std::move(out)};
}

Result<Statement> Parser::loop_exit(bool is_break) {
  if (loops_ == 0) return fail("'", is_break ? "break" : "continue", "' outside of a loop");
  return is_break ? Statement{0, Break()} : Statement{0, Continue()};
}

Result<Statement> Parser::set_statement() {
  LAMINA_ASSIGN(Target to, target(true, true));
  if (skip_op("=")) {
    LAMINA_ASSIGN(ExpressionPtr value, tuple(true, false));
    return Statement{0, Set{std::move(to), std::move(value)}};
  }
  SetBlock out{.target = std::move(to)};
  if (is_op("|")) {
    LAMINA_ASSIGN(out.filter, filter_chain(nullptr));
  }
  LAMINA_ASSIGN(out.body, block_body({"endset"}));
  advance();
  return Statement{0, std::move(out)};
}

Result<Statement> Parser::with_statement() {
  With out;
  while (!is(Token::Type::kTagEnd)) {
    if (!out.variables.empty()) LAMINA_TRY(expect_op(","));
    LAMINA_ASSIGN(Target to, target(false, false));
    LAMINA_TRY(expect_op("="));
    LAMINA_ASSIGN(ExpressionPtr value, expression());
    out.variables.emplace_back(std::move(to), std::move(value));
  }
  LAMINA_ASSIGN(out.body, block_body({"endwith"}));
  advance();
  return Statement{0, std::move(out)};
}

Result<Statement> Parser::group_statement(std::string_view end) {
  Group out;
  LAMINA_ASSIGN(out.body, block_body({end}));
  advance();
  return Statement{0, std::move(out)};
}

Status Parser::parameters(Macro& macro) {
  LAMINA_TRY(expect_op("("));
  while (!is_op(")")) {
    if (!macro.parameters.empty()) LAMINA_TRY(expect_op(","));
    if (is_op(")")) break;
    LAMINA_ASSIGN(const std::string_view name, expect_name());
    Parameter parameter{.name = name_id(name), .text = std::string(name)};
    if (skip_op("=")) {
      LAMINA_ASSIGN(parameter.otherwise, expression());
    } else if (!macro.parameters.empty() && macro.parameters.back().otherwise != nullptr) {
      return fail("the parameter '", name, "' needs a default, because the one before it has one");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  return expect_op(")");
}

/// The body of a macro or call block; a loop around it is none inside it.
Result<Body> Parser::macro_body(Macro& macro, std::string_view end) {
  const int loops_around = std::exchange(loops_, 0);
  macros_.push_back(&macro);
  Result<Body> body = block_body({end});
  macros_.pop_back();
  loops_ = loops_around;
  if (body.ok()) advance();
  return body;
}

Result<Statement> Parser::macro_statement() {
  Macro out;
  LAMINA_ASSIGN(const std::string_view name, expect_name());
  out.name = name;
  out.id = name_id(name);
  LAMINA_TRY(parameters(out));
  LAMINA_ASSIGN(out.body, macro_body(out, "endmacro"));
  return Statement{0, std::move(out)};
}

Result<Statement> Parser::call_statement() {
  CallBlock out;
  if (is_op("(")) LAMINA_TRY(parameters(out.caller));
  LAMINA_ASSIGN(ExpressionPtr call, expression());
  if (!std::holds_alternative<Call>(call->node)) return fail("a call block needs a call");
  out.call = std::get<Call>(std::move(call->node));
  LAMINA_ASSIGN(out.caller.body, macro_body(out.caller, "endcall"));
  return Statement{0, std::move(out)};
}

Result<Statement> Parser::filter_statement() {
  FilterBlock out;
  LAMINA_ASSIGN(ExpressionPtr first, filter(nullptr));
  LAMINA_ASSIGN(out.filter, filter_chain(std::move(first)));
  LAMINA_ASSIGN(out.body, block_body({"endfilter"}));
  advance();
  return Statement{0, std::move(out)};
}

Result<Statement> Parser::block_statement() {
  Block out;
  LAMINA_ASSIGN(out.name, expect_name());
  if (std::ranges::find(block_names_, out.name) != block_names_.end()) return fail("the block '", out.name, "' is defined twice");
  block_names_.push_back(out.name);
  while (skip_word("scoped") || skip_word("required")) {
  }
  LAMINA_ASSIGN(out.body, block_body({"endblock"}));
  advance();
  skip_word(out.name);
  return Statement{0, std::move(out)};
}

/// "a", "a, b", "a, (b, c)"; with `attribute` also "a.b".
Result<Target> Parser::target(bool tuple, bool attribute) {
  LAMINA_ASSIGN(Target first, single_target(attribute));
  if (!tuple || !is_op(",")) return first;
  Target out;
  out.parts.push_back(std::move(first));
  while (skip_op(",")) {
    if (!is(Token::Type::kName) && !is_op("(")) break;
    if (is_word("in")) break;
    LAMINA_ASSIGN(out.parts.emplace_back(), single_target(attribute));
  }
  return out;
}

Result<Target> Parser::single_target(bool attribute) {
  const Nested nested(depth_);
  if (nested.too_deep()) return nested_too_deep();
  if (skip_op("(")) {
    LAMINA_ASSIGN(Target inner, target(true, attribute));
    LAMINA_TRY(expect_op(")"));
    return inner;
  }
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (is_word(constant)) return fail("nothing can be assigned to '", constant, "'");
  }
  LAMINA_ASSIGN(const std::string_view name, expect_name());
  Target out{.name = name_id(name)};
  if (attribute && skip_op(".")) {
    LAMINA_ASSIGN(out.attribute, expect_name());
  }
  return out;
}

Result<std::unique_ptr<const Template>> parse_template(std::string_view source, std::string_view what) {
  if (source.size() > kMaxSourceBytes) return error(what, ": ", source.size(), " bytes; at most ", kMaxSourceBytes, " are allowed");
  if (const size_t valid = valid_utf8_prefix(source); valid != source.size()) return error(what, ": invalid UTF-8 at byte ", valid);
  auto out = std::make_unique<Template>();
  out->what = what;
  out->source = normalized_source(source);
  const Source view{out->what, out->source};
  LAMINA_ASSIGN(std::vector<Token> tokens, tokenize(view));
  LAMINA_TRY(Parser(*out, view, std::move(tokens)).run());
  return std::unique_ptr<const Template>(std::move(out));
}

}  // namespace lamina::jinja
