#include "text/jinja/compare.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "text/jinja/text_search.h"

namespace lamina::jinja {
namespace {

template <class T>
int sign_of(T left, T right) {
  return left < right ? -1 : left > right ? 1 : 0;
}

/// Exact, also where the integer has no equal double.
int order_mixed(Integer left, double right) {
  constexpr double kBeyond = 1.7e38;  // of every Integer
  if (std::isnan(right)) return 0;
  if (std::abs(right) >= kBeyond) return right > 0 ? -1 : 1;
  const auto whole = static_cast<Integer>(right);
  return whole != left ? sign_of(left, whole) : sign_of(0.0, right - static_cast<double>(whole));
}

int order_numbers(const Value& left, const Value& right) {
  if (left.is_integral())
    return right.is_integral() ? sign_of(left.integer(), right.integer()) : order_mixed(left.integer(), right.number());
  if (right.is_integral()) return -order_mixed(right.integer(), left.number());
  return sign_of(left.number(), right.number());
}

bool equal_numbers(const Value& left, const Value& right) {
  if (std::isnan(left.number()) || std::isnan(right.number())) return false;
  return order_numbers(left, right) == 0;
}

bool equal_lists(Runtime& runtime, const List& left, const List& right) {
  const auto sequence_type = [](const List& list) { return list.type == List::Type::kGroup ? List::Type::kTuple : list.type; };
  if (sequence_type(left) != sequence_type(right) || left.items.size() != right.items.size()) return false;
  for (size_t i = 0; i < left.items.size(); ++i)
    if (!equal(runtime, left.items[i], right.items[i])) return false;
  return true;
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const Dict::Entry& entry : left.entries) {
    const Value* other = find(runtime, right, entry.key);
    if (other == nullptr || !equal(runtime, entry.value, *other)) return false;
  }
  return true;
}

bool equal_ranges(const Range& left, const Range& right) {
  if (left.size() != right.size()) return false;
  return left.size() == 0 || (left.start == right.start && (left.size() == 1 || left.step == right.step));
}

Result<int> order_lists(Runtime& runtime, const List& left, const List& right) {
  const size_t common = std::min(left.items.size(), right.items.size());
  for (size_t i = 0; i < common; ++i)
    if (!equal(runtime, left.items[i], right.items[i])) return order(runtime, left.items[i], right.items[i]);
  return sign_of(left.items.size(), right.items.size());
}

}  // namespace

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.work(1);
  if (runtime.exhausted()) return false;
  if (left.is_number() && right.is_number()) return equal_numbers(left, right);
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return true;
    case Value::Kind::kText:
      runtime.work_bytes(std::min(left.text()->bytes.size(), right.text()->bytes.size()));
      return left.text()->bytes == right.text()->bytes;
    case Value::Kind::kList:
      return equal_lists(runtime, *left.list(), *right.list());
    case Value::Kind::kDict:
      return equal_dicts(runtime, *left.dict(), *right.dict());
    case Value::Kind::kRange:
      return equal_ranges(*left.range(), *right.range());
    case Value::Kind::kFunction: {
      const Function &one = *left.function(), &other = *right.function();
      return one.native == other.native && one.macro == other.macro && one.scope == other.scope && one.block == other.block &&
             (one.self.is_undefined() || equal(runtime, one.self, other.self));
    }
    case Value::Kind::kIterator:
      return left.iterator() == right.iterator();
    case Value::Kind::kNamespace:
      return left.name_space() == right.name_space();
    case Value::Kind::kLoop:
      return left.loop() == right.loop();
    default:
      return false;
  }
}

Result<int> order(Runtime& runtime, const Value& left, const Value& right) {
  runtime.work(1);
  if (left.is_number() && right.is_number()) return order_numbers(left, right);
  if (left.text() != nullptr && right.text() != nullptr) {
    runtime.work_bytes(std::min(left.text()->bytes.size(), right.text()->bytes.size()));
    return left.text()->bytes.compare(right.text()->bytes);  // UTF-8 keeps the order of code points
  }
  const List *one = left.list(), *other = right.list();
  if (one != nullptr && other != nullptr && one->type == other->type && one->type <= List::Type::kTuple)
    return order_lists(runtime, *one, *other);
  return error("a ", type_name(left), " and a ", type_name(right), " have no order");
}

Result<bool> contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (item.text() == nullptr) return error("'in' a str needs a str, not ", type_name(item));
    runtime.work_bytes(2 * text->bytes.size());
    return find_bytes(text->bytes, item.text()->bytes, 0) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (!hashable(item)) return error("a ", type_name(item), " cannot be a key of a dict");
    return find(runtime, *dict, item) != nullptr;
  }
  if (Iterator* iterator = container.iterator()) {
    while (!iterator->items.empty() && !runtime.exhausted()) {
      const Value next = iterator->items.front();
      iterator->items = iterator->items.subspan(1);
      if (equal(runtime, next, item)) return true;
    }
    return false;
  }
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, container));
  return std::any_of(items.begin(), items.end(), [&](const Value& each) { return equal(runtime, each, item); });
}

Result<std::span<const Value>> elements(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return std::span<const Value>();
  if (const List* list = value.list()) return list->items;
  if (Iterator* iterator = value.iterator()) return std::exchange(iterator->items, {});
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    for (const Dict::Entry& entry : dict->entries) items.push_back(entry.key);
  } else if (const Range* range = value.range()) {
    for (int64_t i = 0; i < range->size(); ++i) items.emplace_back(Integer{range->at(i)});
  } else if (const Text* text = value.text()) {
    LAMINA_TRY(runtime.room(static_cast<double>(text->bytes.size()) * (sizeof(Value) + sizeof(Text))));
    for (size_t begin = 0; begin < text->bytes.size();) {
      const size_t end = next_character(text->bytes, begin);
      Text character = slice(runtime.heap(), *text, begin, end);
      character.markup = false;  // as in Python, where only the index gives markup
      items.push_back(runtime.text(character));
      begin = end;
    }
  } else {
    return error("a ", type_name(value), " has no elements to go through");
  }
  runtime.work(items.size());
  return runtime.heap().copy(std::span<const Value>(items));
}

Result<int64_t> length(const Value& value) {
  if (value.is_undefined()) return int64_t{0};
  if (const Text* text = value.text()) return text->code_points();
  if (const List* list = value.list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  if (const Range* range = value.range()) return range->size();
  return error("a ", type_name(value), " has no length");
}

Value element(Runtime& runtime, const Value& sequence, int64_t index) {
  if (const List* list = sequence.list()) return list->items[static_cast<size_t>(index)];
  if (const Range* range = sequence.range()) return Value(Integer{range->at(index)});
  const Text& text = *sequence.text();
  if (!text.ascii()) runtime.work_bytes(text.bytes.size());
  const size_t begin = text.offset_of(index);
  return runtime.text(slice(runtime.heap(), text, begin, next_character(text.bytes, begin)));
}

}  // namespace lamina::jinja
