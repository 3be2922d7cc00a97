// Calls: arguments, macros, loops that call themselves.
#include <algorithm>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace lamina::jinja {
namespace {

const NamedArgument* named_argument(const Arguments& arguments, std::string_view name) {
  const auto found = std::ranges::find(arguments.named, name, &NamedArgument::name);
  return found == arguments.named.end() ? nullptr : &*found;
}

std::string called(const Macro& macro) { return macro.name.empty() ? "the caller" : cat("the macro '", macro.name, "'"); }

}  // namespace

Result<Interpreter::Given> Interpreter::arguments_of(const CallArguments& arguments, Scope& scope) {
  Given given;
  for (const ExpressionPtr& expression : arguments.positional) {
    LAMINA_ASSIGN(given.positional.emplace_back(), evaluate(*expression, scope));
  }
  if (arguments.star != nullptr) LAMINA_TRY(add_star(*arguments.star, scope, given));
  for (const Keyword& keyword : arguments.named) {
    if (named_argument(given.view(), keyword.name) != nullptr) return error("the argument '", keyword.name, "' is given twice");
    LAMINA_ASSIGN(const Value value, evaluate(*keyword.value, scope));
    given.named.push_back({keyword.name, value});
  }
  if (arguments.double_star != nullptr) LAMINA_TRY(add_double_star(*arguments.double_star, scope, given));
  return given;
}

Status Interpreter::add_star(const Expression& star, Scope& scope, Given& given) {
  LAMINA_ASSIGN(const Value list, evaluate(star, scope));
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime_, list));
  given.positional.insert(given.positional.end(), items.begin(), items.end());
  return {};
}

Status Interpreter::add_double_star(const Expression& star, Scope& scope, Given& given) {
  LAMINA_ASSIGN(const Value value, evaluate(star, scope));
  if (value.dict() == nullptr) return error("'**' needs a dict, not a ", type_name(value));
  for (const Dict::Entry& entry : value.dict()->entries) {
    if (entry.key.text() == nullptr) return error("'**' needs a dict whose keys are text");
    const std::string_view name = entry.key.text()->bytes;
    if (named_argument(given.view(), name) != nullptr) return error("the argument '", name, "' is given twice");
    runtime_.work(given.named.size() / 4);
    given.named.push_back({name, entry.value});
  }
  return {};
}

Result<Value> Interpreter::call_value(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) return undefined_error(callee);
  if (const Function* function = callee.function()) return call_function(*function, arguments);
  Loop* loop = callee.loop();
  if (loop == nullptr) return call_object(runtime_, callee, arguments);
  if (!loop->node->recursive) return error("a loop that is not recursive cannot be called");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) return error("a recursive loop takes one argument");
  if (++calls_ > kMaxCalls) return error("more than ", kMaxCalls, " calls inside one another");
  TextBuilder text;
  TextBuilder* around = std::exchange(out_, &text);
  const Result<Flow> flow = run_loop(*loop->node, arguments.positional[0], *loop->outer, loop->depth + 1);
  out_ = around;
  --calls_;
  if (!flow.ok()) return flow.error();
  return runtime_.text(text);
}

Result<Value> Interpreter::call_function(const Function& function, const Arguments& arguments) {
  if (function.native != nullptr) {
    Result<Value> value = jinja::call(runtime_, *function.native, function.self, arguments);
    if (!value.ok() && is_raise_exception(*function.native)) raised_ = true;
    return value;
  }
  if (++calls_ > kMaxCalls) return error("more than ", kMaxCalls, " calls inside one another");
  Result<Value> text =
      function.macro != nullptr ? call_macro(*function.macro, *function.scope, arguments) : captured(function.block->body, *root_);
  --calls_;
  return text;
}

Result<Value> Interpreter::macro_value(const Macro& macro, Scope& scope) {
  for (Scope* at = &scope; at != nullptr && !at->captured; at = at->outer) at->captured = true;
  const Function function{.macro = &macro, .scope = &scope};
  return Value(static_cast<const Function*>(runtime_.heap().make<Function>(function)));
}

Result<Value> Interpreter::call_macro(const Macro& macro, Scope& definition, const Arguments& arguments) {
  Scope& scope = new_scope(&definition);
  LAMINA_TRY(bind_surplus(macro, arguments, scope));
  LAMINA_TRY(bind_parameters(macro, arguments, scope));
  TextBuilder text;
  TextBuilder* around = std::exchange(out_, &text);
  const Result<Flow> flow = execute(macro.body, scope);
  out_ = around;
  if (!flow.ok()) return flow.error();
  return runtime_.text(text);
}

Status Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments, Scope& scope) {
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const NamedArgument* named = named_argument(arguments, parameter.text);
    if (i < arguments.positional.size()) {
      scope.set(parameter.name, arguments.positional[i]);
    } else if (named != nullptr) {
      scope.set(parameter.name, named->value);
    } else if (parameter.otherwise != nullptr) {
      LAMINA_ASSIGN(const Value value, evaluate(*parameter.otherwise, scope));
      scope.set(parameter.name, value);
    } else {
      scope.set(parameter.name, runtime_.undefined("", parameter.text));
    }
  }
  return {};
}

/// caller, and what no parameter takes: varargs and kwargs where the macro names them, else an error.
Status Interpreter::bind_surplus(const Macro& macro, const Arguments& arguments, Scope& scope) {
  const size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.uses_varargs)
    return error(called(macro), " takes at most ", count, " arguments, ", arguments.positional.size(), " are given");
  std::vector<Dict::Entry> surplus;
  for (const NamedArgument& named : arguments.named) {
    const auto parameter = std::ranges::find(macro.parameters, named.name, &Parameter::text);
    if (parameter != macro.parameters.end() && parameter - macro.parameters.begin() >= std::ssize(arguments.positional)) continue;
    if (named.name == "caller" && macro.uses_caller) {
      scope.set(kCallerName, named.value);
    } else if (macro.uses_kwargs) {
      surplus.push_back({runtime_.text(named.name), named.value});
    } else {
      return error(called(macro), " takes no argument '", named.name, "'");
    }
  }
  if (macro.uses_caller && named_argument(arguments, "caller") == nullptr) scope.set(kCallerName, runtime_.undefined("", "caller"));
  if (macro.uses_varargs) {
    const auto rest = arguments.positional.subspan(std::min(count, arguments.positional.size()));
    LAMINA_ASSIGN(const Value varargs, runtime_.list(rest, List::Type::kTuple));
    scope.set(kVarargsName, varargs);
  }
  if (macro.uses_kwargs) {
    LAMINA_ASSIGN(const Value kwargs, runtime_.dict(std::move(surplus)));
    scope.set(kKwargsName, kwargs);
  }
  return {};
}

}  // namespace lamina::jinja
