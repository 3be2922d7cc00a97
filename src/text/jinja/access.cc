// Attributes, items and slices of values.
#include <algorithm>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace lamina::jinja {
namespace {

/// Names that every object of Python has, which a template must not reach; other names with two underscores can only be keys.
bool is_internal(std::string_view name) { return name.size() > 4 && name.starts_with("__") && name.ends_with("__"); }

/// What an undefined value itself has, so that naming it is no error yet.
bool undefined_has(std::string_view name) {
  constexpr std::string_view kNames[] = {"__class__", "__init__", "__doc__",  "__dict__", "__module__", "__repr__", "__str__",
                                         "__eq__",    "__ne__",   "__hash__", "__call__", "__len__",    "__iter__", "__bool__"};
  return name.starts_with("_undefined_") || std::ranges::find(kNames, name) != std::end(kNames);
}

std::string_view owner_name(const Value& object) { return object.is_none() ? "None" : type_name(object); }

Value loop_attribute(Runtime& runtime, const Loop& loop, std::string_view name) {
  const auto size = static_cast<int64_t>(loop.items.size());
  const std::pair<std::string_view, int64_t> numbers[] = {
      {"index", loop.index + 1}, {"index0", loop.index},    {"revindex", size - loop.index}, {"revindex0", size - loop.index - 1},
      {"length", size},          {"depth", loop.depth + 1}, {"depth0", loop.depth}};
  for (const auto& [field, number] : numbers)
    if (field == name) return Value(Integer{number});
  if (name == "first") return Value(loop.index == 0);
  if (name == "last") return Value(loop.index + 1 == size);
  const int64_t neighbour = name == "previtem" ? loop.index - 1 : name == "nextitem" ? loop.index + 1 : -1;
  if (neighbour >= 0 && neighbour < size) return loop.items[static_cast<size_t>(neighbour)];
  return runtime.undefined("LoopContext", name);
}

/// A field (not a method) of an object that is no dict.
std::optional<Value> field(Runtime& runtime, const Value& object, std::string_view name) {
  if (Namespace* name_space = object.name_space()) {
    const Value* found = name_space->find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (const Loop* loop = object.loop()) {
    const Value value = loop_attribute(runtime, *loop, name);
    return value.is_undefined() ? std::nullopt : std::optional(value);
  }
  if (const Range* range = object.range()) {
    if (name == "start") return Value(Integer{range->start});
    if (name == "stop") return Value(Integer{range->stop});
    if (name == "step") return Value(Integer{range->step});
  }
  const List* list = object.list();
  if (list != nullptr && list->type == List::Type::kGroup) {
    if (name == "grouper") return list->items[0];
    if (name == "list") return list->items[1];
  }
  if (Cycler* const* cycler = object.get<Cycler*>(); cycler != nullptr && name == "current") return (*cycler)->items[(*cycler)->next];
  return std::nullopt;
}

/// getattr() as the sandbox allows it.
std::optional<Value> own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (is_internal(name) || is_mutating_method(object, name)) return runtime.undefined(owner_name(object), name, true);
  if (const std::optional<Value> value = field(runtime, object, name)) return value;
  if (const Native* method = find_method(object, name))
    return Value(static_cast<const Function*>(runtime.heap().make<Function>(method, object)));
  return std::nullopt;
}

/// What a negative or missing bound means; for a step below 0 the ends are size - 1 and -1.
Result<int64_t> slice_bound(const Value& bound, int64_t otherwise, int64_t size, bool backwards) {
  if (bound.is_none()) return otherwise;
  LAMINA_ASSIGN(int64_t index, integer_of(bound));
  if (index < 0) index = std::max<int64_t>(index, -size - 1) + size;
  return std::clamp<int64_t>(index, backwards ? -1 : 0, backwards ? size - 1 : size);
}

/// The positions that a slice takes, as a range.
Result<Range> slice_range(const SliceBounds& bounds, int64_t size) {
  int64_t step = 1;
  if (!bounds.step.is_none()) {
    LAMINA_ASSIGN(step, integer_of(bounds.step));
  }
  if (step == 0) return error("the step of a slice is 0");
  step = std::clamp<int64_t>(step, -size - 1, size + 1);
  const bool backwards = step < 0;
  LAMINA_ASSIGN(const int64_t start, slice_bound(bounds.start, backwards ? size - 1 : 0, size, backwards));
  LAMINA_ASSIGN(const int64_t stop, slice_bound(bounds.stop, backwards ? -1 : size, size, backwards));
  return Range{start, stop, step};
}

Value slice_text(Runtime& runtime, const Text& text, const Range& range) {
  runtime.work_bytes(text.bytes.size());
  if (range.size() == 0) return runtime.text("");
  if (range.step == 1) {
    const size_t begin = text.offset_of(range.start), end = text.offset_of(range.stop);
    return runtime.text(slice(runtime.heap(), text, begin, end));
  }
  std::vector<size_t> offsets;  // of all characters, and the end
  for (size_t at = 0; at < text.bytes.size(); ++at)
    if ((static_cast<uint8_t>(text.bytes[at]) & 0xC0) != 0x80) offsets.push_back(at);
  offsets.push_back(text.bytes.size());
  TextBuilder out;
  for (int64_t i = 0; i < range.size(); ++i) {
    const auto at = static_cast<size_t>(range.at(i));
    out.add(text, offsets[at], offsets[at + 1]);
  }
  return runtime.text(out, text.markup);
}

}  // namespace

Error undefined_error(const Value& value) {
  const Undefined* undefined = value.as<const Undefined*>();
  if (undefined == nullptr) return error("the value is undefined");
  if (undefined->unsafe) return error("access to attribute '", undefined->name, "' of a ", undefined->owner, " is not allowed");
  if (undefined->owner.empty()) return error("'", undefined->name, "' is undefined");
  if (undefined->name.empty()) return error("a ", undefined->owner, " has no such element");
  return error("a ", undefined->owner, " has no attribute '", undefined->name, "'");
}

Result<Value> attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined())
    return undefined_has(name) ? runtime.undefined("Undefined", name, true) : Result<Value>(undefined_error(object));
  if (const std::optional<Value> value = own_attribute(runtime, object, name)) return *value;
  if (const Dict* dict = object.dict())
    if (const Value* found = find(*dict, name)) return *found;
  return runtime.undefined(owner_name(object), name);
}

Result<Value> item(Runtime& runtime, const Value& object, const Value& key) {
  if (object.is_undefined()) return undefined_error(object);
  if (const Dict* dict = object.dict())
    if (const Value* found = find(runtime, *dict, key)) return *found;
  if (is_sequence(object) && key.is_integral()) {
    LAMINA_ASSIGN(int64_t index, integer_of(key));
    LAMINA_ASSIGN(const int64_t size, length(object));
    if (index < 0) index += size;
    if (index >= 0 && index < size) return element(runtime, object, index);
  }
  const Text* name = key.text();
  if (name == nullptr) return runtime.undefined(owner_name(object), "");
  if (const std::optional<Value> value = own_attribute(runtime, object, name->bytes)) return *value;
  return runtime.undefined(owner_name(object), name->bytes);
}

Result<Value> sliced(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  if (object.is_undefined()) return undefined_error(object);
  if (!is_sequence(object)) return error("a ", type_name(object), " has no slices");
  LAMINA_ASSIGN(const int64_t size, length(object));
  LAMINA_ASSIGN(const Range range, slice_range(bounds, size));
  if (const Text* text = object.text()) return slice_text(runtime, *text, range);
  if (const Range* from = object.range()) {
    const Range part{from->at(range.start), from->at(range.stop), from->step * range.step};
    return Value(static_cast<const Range*>(runtime.heap().make<Range>(part)));
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < range.size(); ++i) items.push_back(object.list()->items[static_cast<size_t>(range.at(i))]);
  const bool tuple = object.list()->type != List::Type::kList;
  return runtime.list(items, tuple ? List::Type::kTuple : List::Type::kList);
}

}  // namespace lamina::jinja
