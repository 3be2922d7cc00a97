#include "text/jinja/methods.h"

#include <algorithm>

#include "base/strings.h"
#include "text/jinja/compare.h"

namespace lamina::jinja {
namespace {

Result<Value> dict_copy(Runtime&, const Value& self, const Bound&) { return self; }

Result<Value> dict_get(Runtime& runtime, const Value& self, const Bound& arguments) {
  const Value* found = find(runtime, *self.dict(), arguments.value(0));
  if (found != nullptr) return *found;
  return arguments.has(1) ? arguments.value(1) : Value(None());
}

Result<Value> dict_items(Runtime& runtime, const Value& self, const Bound&) {
  std::vector<Value> items;
  for (const Dict::Entry& entry : self.dict()->entries) {
    LAMINA_ASSIGN(items.emplace_back(), runtime.pair(entry.key, entry.value));
  }
  return runtime.list(items, List::Type::kItems);
}

template <Value Dict::Entry::* part, List::Type type>
Result<Value> dict_view(Runtime& runtime, const Value& self, const Bound&) {
  std::vector<Value> items;
  for (const Dict::Entry& entry : self.dict()->entries) items.push_back(entry.*part);
  return runtime.list(items, type);
}

Result<Value> dict_fromkeys(Runtime& runtime, const Value&, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> keys, elements(runtime, arguments.value(0)));
  std::vector<Dict::Entry> entries;
  for (const Value& key : keys) entries.push_back({key, arguments.has(1) ? arguments.value(1) : Value(None())});
  return runtime.dict(std::move(entries));
}

Result<Value> list_copy(Runtime&, const Value& self, const Bound&) { return self; }

Result<Value> count(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  return Value(Integer{std::ranges::count_if(items, [&](const Value& each) { return equal(runtime, each, arguments.value(0)); })});
}

Result<Value> index(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  for (size_t i = 0; i < items.size(); ++i)
    if (equal(runtime, items[i], arguments.value(0))) return Value(Integer{i});
  return error("the element to be found is not in the ", type_name(self));
}

Result<Value> loop_changed(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Value now, runtime.list(arguments.all.positional, List::Type::kTuple));
  Loop& loop = *self.loop();
  const bool changed = !loop.changed || !equal(runtime, *loop.changed, now);
  loop.changed = now;
  return Value(changed);
}

Result<Value> loop_cycle(Runtime&, const Value& self, const Bound& arguments) {
  const std::span<const Value> items = arguments.all.positional;
  if (items.empty()) return error("loop.cycle() needs arguments");
  return items[static_cast<size_t>(self.loop()->index) % items.size()];
}

Result<Value> cycler_next(Runtime&, const Value& self, const Bound&) {
  Cycler& cycler = *self.as<Cycler*>();
  const Value current = cycler.items[cycler.next];
  cycler.next = (cycler.next + 1) % cycler.items.size();
  return current;
}

Result<Value> cycler_reset(Runtime&, const Value& self, const Bound&) {
  self.as<Cycler*>()->next = 0;
  return Value(None());
}

constexpr Native kDictMethods[] = {
    {"copy", dict_copy},
    {"get", dict_get, 1, {"key", "default"}},
    {"items", dict_items},
    {"keys", dict_view<&Dict::Entry::key, List::Type::kKeys>},
    {"values", dict_view<&Dict::Entry::value, List::Type::kValues>},
};
constexpr Native kListMethods[] = {{"copy", list_copy}, {"count", count, 1, {"value"}}, {"index", index, 1, {"value"}}};
constexpr Native kSequenceMethods[] = {{"count", count, 1, {"value"}}, {"index", index, 1, {"value"}}};
constexpr Native kLoopMethods[] = {{"changed", loop_changed, kAnyArguments}, {"cycle", loop_cycle, kAnyArguments}};
constexpr Native kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};
constexpr Native kDictTypeMethods[] = {{"fromkeys", dict_fromkeys, 1, {"iterable", "value"}}};
static_assert(sorted_by_name(kDictMethods) && sorted_by_name(kListMethods) && sorted_by_name(kSequenceMethods) &&
              sorted_by_name(kLoopMethods) && sorted_by_name(kCyclerMethods));

std::span<const Native> list_methods(List::Type type) {
  if (type == List::Type::kList) return kListMethods;
  if (type == List::Type::kTuple || type == List::Type::kGroup) return kSequenceMethods;
  return {};
}

}  // namespace

const Native* find_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Value::Kind::kText:
      return find_text_method(name);
    case Value::Kind::kDict:
      return find_native(kDictMethods, name);
    case Value::Kind::kList:
      return find_native(list_methods(object.list()->type), name);
    case Value::Kind::kRange:
      return find_native(kSequenceMethods, name);
    case Value::Kind::kLoop:
      return find_native(kLoopMethods, name);
    case Value::Kind::kCycler:
      return find_native(kCyclerMethods, name);
    case Value::Kind::kFunction: {
      const Native* native = object.function()->native;
      return native != nullptr && native->name == "dict" ? find_native(kDictTypeMethods, name) : nullptr;
    }
    default:
      return nullptr;
  }
}

bool is_mutating_method(const Value& object, std::string_view name) {
  constexpr std::string_view kOfList[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto among = [&](std::span<const std::string_view> names) { return std::ranges::find(names, name) != names.end(); };
  if (object.list() != nullptr) return object.list()->type == List::Type::kList && among(kOfList);
  return object.dict() != nullptr && among(kOfDict);
}

bool is_sequence(const Value& value) {
  if (const List* list = value.list()) return list->type <= List::Type::kTuple || list->type == List::Type::kGroup;
  return value.text() != nullptr || value.range() != nullptr;
}

Result<Value> call_object(Runtime& runtime, const Value& object, const Arguments& arguments) {
  Joiner* const* joiner = object.get<Joiner*>();
  if (joiner == nullptr) return error("a ", type_name(object), " cannot be called");
  if (!arguments.positional.empty() || !arguments.named.empty()) return error("a joiner takes no arguments");
  return std::exchange((*joiner)->used, true) ? (*joiner)->separator : runtime.text("");
}

}  // namespace lamina::jinja
