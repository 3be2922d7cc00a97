#include "text/jinja/value.h"

#include <algorithm>

namespace lamina::jinja {
namespace {

std::string_view list_type_name(List::Type type) {
  constexpr std::string_view kNames[] = {"list", "tuple", "dict_keys", "dict_values", "dict_items", "_GroupTuple"};
  return kNames[static_cast<int>(type)];
}

}  // namespace

std::string_view type_name(const Value& value) {
  constexpr std::string_view kNames[] = {"Undefined", "NoneType",  "bool",      "int",         "float",    "str",    "list",  "dict",
                                         "range",     "generator", "Namespace", "LoopContext", "function", "Cycler", "Joiner"};
  if (const List* list = value.list()) return list_type_name(list->type);
  return kNames[static_cast<int>(value.kind())];
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return false;
    case Value::Kind::kBool:
    case Value::Kind::kInteger:
      return value.integer() != 0;
    case Value::Kind::kFloat:
      return value.number() != 0;
    case Value::Kind::kText:
      return !value.text()->bytes.empty();
    case Value::Kind::kList:
      return !value.list()->items.empty();
    case Value::Kind::kDict:
      return !value.dict()->entries.empty();
    case Value::Kind::kRange:
      return value.range()->size() > 0;
    default:
      return true;
  }
}

int depth_of(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  if (const Iterator* iterator = value.iterator()) return iterator->depth;
  return 0;
}

}  // namespace lamina::jinja
