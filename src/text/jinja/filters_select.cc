// map, select, reject and their kin.
#include <algorithm>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/filters.h"

namespace lamina::jinja {
namespace {

const Value* named_argument(const Arguments& arguments, std::string_view name) {
  const auto found = std::ranges::find(arguments.named, name, &NamedArgument::name);
  return found == arguments.named.end() ? nullptr : &found->value;
}

/// A test and its arguments, from those of a filter; without a name it is truth.
class Condition {
 public:
  static Result<Condition> parse(const Arguments& arguments, size_t name_at) {
    Condition out;
    if (arguments.positional.size() <= name_at) return out;
    LAMINA_ASSIGN(const Text* name, text_of(arguments.positional[name_at]));
    out.test_ = find_test(name->bytes);
    if (out.test_ == nullptr) return error("there is no test named '", name->bytes, "'");
    out.arguments_ = {arguments.positional.subspan(name_at + 1), arguments.named};
    return out;
  }
  Result<bool> holds(Runtime& runtime, const Value& value) const {
    if (test_ == nullptr) return truthy(value);
    LAMINA_ASSIGN(const Value result, call(runtime, *test_, value, arguments_));
    return truthy(result);
  }

 private:
  const Native* test_ = nullptr;
  Arguments arguments_;
};

/// The elements for which the condition on them, or on what `path` reaches, is `wanted`.
Result<Value> selected(Runtime& runtime, const Value& self, const AttributePath& path, const Condition& condition, bool wanted) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  std::vector<Value> kept;
  for (const Value& each : items) {
    LAMINA_ASSIGN(const Value part, path.from(runtime, each));
    LAMINA_ASSIGN(const bool holds, condition.holds(runtime, part));
    if (holds == wanted) kept.push_back(each);
    LAMINA_TRY(runtime.check());
  }
  return runtime.generator(kept);
}

Result<Value> select(Runtime& runtime, const Value& self, const Bound& arguments, bool wanted) {
  if (!truthy(self)) return runtime.generator({});  // None too: templates rely on it
  LAMINA_ASSIGN(const Condition condition, Condition::parse(arguments.all, 0));
  return selected(runtime, self, AttributePath(), condition, wanted);
}

Result<Value> select_by_attribute(Runtime& runtime, const Value& self, const Bound& arguments, bool wanted) {
  if (!truthy(self)) return runtime.generator({});
  if (arguments.all.positional.empty()) return error("the name of an attribute is missing");
  LAMINA_ASSIGN(const AttributePath path, AttributePath::parse(runtime, arguments.all.positional[0]));
  LAMINA_ASSIGN(const Condition condition, Condition::parse(arguments.all, 1));
  return selected(runtime, self, path, condition, wanted);
}

Result<Value> map_attribute(Runtime& runtime, std::span<const Value> items, const Arguments& arguments) {
  const Value* attribute = named_argument(arguments, "attribute");
  const Value* otherwise = named_argument(arguments, "default");
  if (attribute == nullptr) return error("map needs the name of a filter, or attribute=");
  for (const NamedArgument& named : arguments.named)
    if (named.name != "attribute" && named.name != "default") return error("map() has no argument '", named.name, "'");
  if (otherwise != nullptr && otherwise->is_none()) otherwise = nullptr;
  LAMINA_ASSIGN(const AttributePath path, AttributePath::parse(runtime, *attribute));
  std::vector<Value> out;
  for (const Value& each : items) {
    LAMINA_ASSIGN(out.emplace_back(), path.from(runtime, each, otherwise));
    LAMINA_TRY(runtime.check());
  }
  return runtime.generator(out);
}

}  // namespace

Result<Value> filter_map(Runtime& runtime, const Value& self, const Bound& arguments) {
  if (!truthy(self)) return runtime.generator({});
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  const Arguments& all = arguments.all;
  if (all.positional.empty()) return map_attribute(runtime, items, all);
  LAMINA_ASSIGN(const Text* name, text_of(all.positional[0]));
  const Native* filter = find_filter(name->bytes);
  if (filter == nullptr) return error("there is no filter named '", name->bytes, "'");
  std::vector<Value> out;
  for (const Value& each : items) {
    LAMINA_ASSIGN(out.emplace_back(), call(runtime, *filter, each, {all.positional.subspan(1), all.named}));
    runtime.work(1);
    LAMINA_TRY(runtime.check());
  }
  return runtime.generator(out);
}

Result<Value> filter_select(Runtime& runtime, const Value& self, const Bound& arguments) { return select(runtime, self, arguments, true); }
Result<Value> filter_reject(Runtime& runtime, const Value& self, const Bound& arguments) { return select(runtime, self, arguments, false); }
Result<Value> filter_selectattr(Runtime& runtime, const Value& self, const Bound& arguments) {
  return select_by_attribute(runtime, self, arguments, true);
}
Result<Value> filter_rejectattr(Runtime& runtime, const Value& self, const Bound& arguments) {
  return select_by_attribute(runtime, self, arguments, false);
}

}  // namespace lamina::jinja
