#pragma once
// Renders a parsed template.

#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/native.h"
#include "text/jinja/runtime.h"

namespace lamina::jinja {

/// Variables of a body. An inner scope reads what outer ones hold, and never changes it.
struct Scope {
  Scope(Heap& heap, Scope* outer_scope) : outer(outer_scope), variables(&heap) {}
  Scope* outer;
  std::pmr::vector<std::pair<NameId, Value>> variables;
  bool captured = false;  // a macro refers to it: not to be used again

  const Value* find(NameId name) const;
  void set(NameId name, const Value& value);
};

class Interpreter {
 public:
  Interpreter(const Template& source, Runtime& runtime) : template_(source), runtime_(runtime), globals_(source.names.size()) {}

  /// Sets a variable that the template finds at its start.
  void define(std::string_view name, const Value& value);
  /// Renders into `out`. The error of raise_exception is its message alone; others name the template and the line.
  Status run(TextBuilder& out);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements (statements.cc).
  Result<Flow> execute(const Body& body, Scope& scope);
  Result<Flow> execute(const Statement& statement, Scope& scope);
  Result<Flow> run_node(std::string_view text, Scope& scope);
  Result<Flow> run_node(const Print& node, Scope& scope);
  Result<Flow> run_node(const If& node, Scope& scope);
  Result<Flow> run_node(const For& node, Scope& scope);
  Result<Flow> run_node(const Set& node, Scope& scope);
  Result<Flow> run_node(const SetBlock& node, Scope& scope);
  Result<Flow> run_node(const With& node, Scope& scope);
  Result<Flow> run_node(const Macro& node, Scope& scope);
  Result<Flow> run_node(const CallBlock& node, Scope& scope);
  Result<Flow> run_node(const FilterBlock& node, Scope& scope);
  Result<Flow> run_node(const Block& node, Scope& scope);
  Result<Flow> run_node(const Group& node, Scope& scope);
  Result<Flow> run_node(const Break&, Scope&) { return Flow::kBreak; }
  Result<Flow> run_node(const Continue&, Scope&) { return Flow::kContinue; }
  Result<Flow> run_loop(const For& node, const Value& iterable, Scope& outer, int64_t depth);
  Result<std::span<const Value>> tested(const For& node, std::span<const Value> items, Scope& outer);
  Status assign(const Target& target, const Value& value, Scope& scope);
  Status assign_attribute(const Target& target, const Value& value, Scope& scope);
  /// What `body` prints, in a scope of its own.
  Result<Value> captured(const Body& body, Scope& scope);
  Result<Value> filtered(const ExpressionPtr& filter, const Value& text, Scope& scope);
  Scope& new_scope(Scope* outer) { return *runtime_.heap().make<Scope>(runtime_.heap(), outer); }

  // Expressions (expressions.cc).
  Result<Value> evaluate(const Expression& expression, Scope& scope);
  Result<Value> value_of(const Constant& node, Scope& scope);
  Result<Value> value_of(const Variable& node, Scope& scope);
  Result<Value> value_of(const Attribute& node, Scope& scope);
  Result<Value> value_of(const Item& node, Scope& scope);
  Result<Value> value_of(const Slice& node, Scope& scope);
  Result<Value> value_of(const Call& node, Scope& scope);
  Result<Value> value_of(const FilterCall& node, Scope& scope);
  Result<Value> value_of(const TestCall& node, Scope& scope);
  Result<Value> value_of(const Unary& node, Scope& scope);
  Result<Value> value_of(const Arithmetic& node, Scope& scope);
  Result<Value> value_of(const Comparison& node, Scope& scope);
  Result<Value> value_of(const Logic& node, Scope& scope);
  Result<Value> value_of(const Concatenation& node, Scope& scope);
  Result<Value> value_of(const Conditional& node, Scope& scope);
  Result<Value> value_of(const Sequence& node, Scope& scope);
  Result<Value> value_of(const Mapping& node, Scope& scope);
  const Value* lookup(NameId name, const Scope& scope) const;

  // Calls (calls.cc).
  struct Given {
    std::vector<Value> positional;
    std::vector<NamedArgument> named;
    Arguments view() const { return {positional, named}; }
  };
  Result<Given> arguments_of(const CallArguments& arguments, Scope& scope);
  Status add_star(const Expression& star, Scope& scope, Given& given);
  Status add_double_star(const Expression& star, Scope& scope, Given& given);
  Result<Value> call_value(const Value& callee, const Arguments& arguments);
  Result<Value> call_function(const Function& function, const Arguments& arguments);
  Result<Value> call_macro(const Macro& macro, Scope& definition, const Arguments& arguments);
  Status bind_parameters(const Macro& macro, const Arguments& arguments, Scope& scope);
  Status bind_surplus(const Macro& macro, const Arguments& arguments, Scope& scope);
  Result<Value> macro_value(const Macro& macro, Scope& scope);

  const Template& template_;
  Runtime& runtime_;
  std::vector<std::optional<Value>> globals_;  // by NameId: the context, then the language's own functions
  TextBuilder* out_ = nullptr;
  Scope* root_ = nullptr;
  int depth_ = 0;
  int calls_ = 0;
  int fault_line_ = 0;   // of the node that failed first
  bool raised_ = false;  // by raise_exception
};

}  // namespace lamina::jinja
