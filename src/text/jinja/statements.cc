// The statements of Interpreter.
#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace lamina::jinja {

const Value* Scope::find(NameId name) const {
  for (const auto& [id, value] : variables)
    if (id == name) return &value;
  return nullptr;
}

void Scope::set(NameId name, const Value& value) {
  for (auto& [id, old] : variables) {
    if (id != name) continue;
    old = value;
    return;
  }
  variables.emplace_back(name, value);
}

void Interpreter::define(std::string_view name, const Value& value) {
  for (size_t id = 0; id < template_.names.size(); ++id)
    if (*template_.names[id] == name) globals_[id] = value;
}

Status Interpreter::run(TextBuilder& out) {
  for (const Native& function : global_functions()) {
    for (size_t id = 0; id < template_.names.size(); ++id) {
      if (*template_.names[id] == function.name && !globals_[id])
        globals_[id] = Value(static_cast<const Function*>(runtime_.heap().make<Function>(&function)));
    }
  }
  globals_[kSelfName] = Value(runtime_.heap().make<Namespace>(runtime_.heap()));
  root_ = &new_scope(nullptr);
  out_ = &out;
  const Result<Flow> done = execute(template_.body, *root_);
  if (done.ok()) return runtime_.check();
  if (raised_) return done.error();
  return error(template_.what, ": line ", fault_line_, ": ", done.error().message);
}

Result<Interpreter::Flow> Interpreter::execute(const Body& body, Scope& scope) {
  for (const Statement& statement : body) {
    Result<Flow> flow = execute(statement, scope);
    if (!flow.ok() || *flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Statement& statement, Scope& scope) {
  runtime_.work(1);
  if (++depth_ > kMaxDepth) return error("more than ", kMaxDepth, " evaluations inside one another");
  Result<Flow> flow = std::visit([&](const auto& node) { return run_node(node, scope); }, statement.node);
  --depth_;
  if (!flow.ok() && fault_line_ == 0) fault_line_ = statement.line;
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_node(std::string_view text, Scope&) {
  out_->add(text);
  runtime_.work_bytes(text.size());
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_node(const Print& node, Scope& scope) {
  LAMINA_ASSIGN(const Value value, evaluate(*node.value, scope));
  LAMINA_TRY(print(runtime_, value, *out_));
  LAMINA_TRY(runtime_.room(static_cast<double>(out_->size())));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_node(const If& node, Scope& scope) {
  for (const auto& [condition, body] : node.branches) {
    LAMINA_ASSIGN(const Value value, evaluate(*condition, scope));
    if (truthy(value)) return execute(body, scope);
  }
  return execute(node.otherwise, scope);
}

Result<Interpreter::Flow> Interpreter::run_node(const For& node, Scope& scope) {
  LAMINA_ASSIGN(const Value iterable, evaluate(*node.iterable, scope));
  return run_loop(node, iterable, scope, 0);
}

/// The items for which the loop's condition holds.
Result<std::span<const Value>> Interpreter::tested(const For& node, std::span<const Value> items, Scope& outer) {
  if (node.test == nullptr) return items;
  std::vector<Value> kept;
  Scope& scope = new_scope(&outer);
  for (const Value& item : items) {
    scope.variables.clear();
    LAMINA_TRY(assign(node.target, item, scope));
    LAMINA_ASSIGN(const Value holds, evaluate(*node.test, scope));
    if (truthy(holds)) kept.push_back(item);
  }
  return runtime_.heap().copy(std::span<const Value>(kept));
}

Result<Interpreter::Flow> Interpreter::run_loop(const For& node, const Value& iterable, Scope& outer, int64_t depth) {
  LAMINA_ASSIGN(const std::span<const Value> all, elements(runtime_, iterable));
  LAMINA_ASSIGN(const std::span<const Value> items, tested(node, all, outer));
  bool completed = false;  // some iteration ran to its end: as in Jinja2, one that breaks or continues does not count for else
  Loop* loop = runtime_.heap().make<Loop>(items, &node, &outer, depth);
  Scope* scope = &new_scope(&outer);
  for (size_t i = 0; i < items.size(); ++i) {
    if (scope->captured) scope = &new_scope(&outer);
    scope->variables.clear();
    loop->index = static_cast<int64_t>(i);
    scope->set(kLoopName, Value(loop));
    LAMINA_TRY(assign(node.target, items[i], *scope));
    LAMINA_ASSIGN(const Flow flow, execute(node.body, *scope));
    if (flow == Flow::kBreak) break;
    completed |= flow == Flow::kNext;
  }
  return completed ? Flow::kNext : execute(node.otherwise, new_scope(&outer));
}

Result<Interpreter::Flow> Interpreter::run_node(const Set& node, Scope& scope) {
  LAMINA_ASSIGN(const Value value, evaluate(*node.value, scope));
  LAMINA_TRY(assign(node.target, value, scope));
  return Flow::kNext;
}

Status Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.parts.empty()) {
    if (!target.attribute.empty()) return assign_attribute(target, value, scope);
    scope.set(target.name, value);
    return {};
  }
  if (value.is_undefined()) return undefined_error(value);
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime_, value));
  if (items.size() != target.parts.size())
    return error("a ", type_name(value), " of ", items.size(), " elements for ", target.parts.size(), " variables");
  for (size_t i = 0; i < items.size(); ++i) LAMINA_TRY(assign(target.parts[i], items[i], scope));
  return {};
}

Status Interpreter::assign_attribute(const Target& target, const Value& value, Scope& scope) {
  const Value* holder = lookup(target.name, scope);
  Namespace* name_space = holder == nullptr ? nullptr : holder->name_space();
  if (name_space == nullptr || target.name == kSelfName) {
    return error("'", *template_.names[static_cast<size_t>(target.name)], "' is no namespace: its attribute cannot be set");
  }
  if (Value* old = name_space->find(target.attribute)) {
    *old = value;
  } else {
    name_space->attributes.emplace_back(target.attribute, value);
  }
  return {};
}

Result<Value> Interpreter::captured(const Body& body, Scope& scope) {
  TextBuilder text;
  TextBuilder* around = std::exchange(out_, &text);
  const Result<Flow> flow = execute(body, new_scope(&scope));
  out_ = around;
  if (!flow.ok()) return flow.error();
  return runtime_.text(text);
}

/// `text` through a chain of filters; null is none.
Result<Value> Interpreter::filtered(const ExpressionPtr& filter, const Value& text, Scope& scope) {
  if (filter == nullptr) return text;
  const FilterCall& call = std::get<FilterCall>(filter->node);
  LAMINA_ASSIGN(const Value input, filtered(call.input, text, scope));
  if (call.filter == nullptr) return error("there is no filter named '", call.name, "'");
  LAMINA_ASSIGN(const Given given, arguments_of(call.arguments, scope));
  return jinja::call(runtime_, *call.filter, input, given.view());
}

Result<Interpreter::Flow> Interpreter::run_node(const SetBlock& node, Scope& scope) {
  LAMINA_ASSIGN(const Value text, captured(node.body, scope));
  LAMINA_ASSIGN(const Value value, filtered(node.filter, text, scope));
  LAMINA_TRY(assign(node.target, value, scope));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_node(const FilterBlock& node, Scope& scope) {
  LAMINA_ASSIGN(const Value text, captured(node.body, scope));
  LAMINA_ASSIGN(const Value value, filtered(node.filter, text, scope));
  if (value.text() == nullptr) return error("the filter block gives a ", type_name(value), ", not text");
  LAMINA_TRY(print(runtime_, value, *out_));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_node(const With& node, Scope& scope) {
  Scope& inner = new_scope(&scope);
  for (const auto& [target, expression] : node.variables) {
    LAMINA_ASSIGN(const Value value, evaluate(*expression, scope));
    LAMINA_TRY(assign(target, value, inner));
  }
  return execute(node.body, inner);
}

Result<Interpreter::Flow> Interpreter::run_node(const Macro& node, Scope& scope) {
  LAMINA_ASSIGN(const Value macro, macro_value(node, scope));
  scope.set(node.id, macro);
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_node(const CallBlock& node, Scope& scope) {
  LAMINA_ASSIGN(const Value callee, evaluate(*node.call.callee, scope));
  LAMINA_ASSIGN(Given given, arguments_of(node.call.arguments, scope));
  LAMINA_ASSIGN(const Value caller, macro_value(node.caller, scope));
  given.named.push_back({"caller", caller});
  LAMINA_ASSIGN(const Value value, call_value(callee, given.view()));
  LAMINA_TRY(print(runtime_, value, *out_));
  return Flow::kNext;
}

/// Prints the block here, and lets self.name() print it again.
Result<Interpreter::Flow> Interpreter::run_node(const Block& node, Scope&) {
  Namespace* blocks = globals_[kSelfName]->name_space();
  if (blocks->find(node.name) == nullptr) {
    const Function function{.block = &node};
    blocks->attributes.emplace_back(node.name, Value(static_cast<const Function*>(runtime_.heap().make<Function>(function))));
  }
  return execute(node.body, new_scope(root_));
}

Result<Interpreter::Flow> Interpreter::run_node(const Group& node, Scope& scope) { return execute(node.body, new_scope(&scope)); }

}  // namespace lamina::jinja
