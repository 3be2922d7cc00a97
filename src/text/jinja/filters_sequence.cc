// Filters that take sequences apart and together.
#include <algorithm>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace lamina::jinja {

Result<AttributePath> AttributePath::parse(Runtime& runtime, const Value& path) {
  AttributePath out;
  if (path.is_integral()) {
    out.parts_.push_back(path);
    return out;
  }
  LAMINA_ASSIGN(const Text* text, text_of(path));
  for (const Piece& piece : split_at(text->bytes, ".", -1)) {
    const std::string_view part = text->bytes.substr(piece.begin, piece.end - piece.begin);
    const bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    out.parts_.push_back(number ? Value(Integer{std::stoi(std::string(part))}) : runtime.text(part));
  }
  return out;
}

Result<Value> AttributePath::from(Runtime& runtime, const Value& value, const Value* otherwise) const {
  Value at = value;
  for (const Value& part : parts_) {
    LAMINA_ASSIGN(at, item(runtime, at, part));
    if (at.is_undefined() && otherwise != nullptr) at = *otherwise;
  }
  runtime.work(1 + parts_.size());
  return at;
}

Result<Value> filter_first(Runtime& runtime, const Value& self, const Bound&) {
  if (Iterator* iterator = self.iterator(); iterator != nullptr && !iterator->items.empty()) {
    const Value first = iterator->items.front();
    iterator->items = iterator->items.subspan(1);
    return first;
  }
  if (const Text* text = self.text(); text != nullptr && !text->bytes.empty()) {
    Text character = slice(runtime.heap(), *text, 0, next_character(text->bytes, 0));
    character.markup = false;
    return runtime.text(character);
  }
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  return items.empty() ? runtime.undefined("", "the first element of an empty sequence") : items.front();
}

Result<Value> filter_last(Runtime& runtime, const Value& self, const Bound&) {
  if (self.iterator() != nullptr) return error("a generator has no last element");
  if (is_sequence(self)) {
    LAMINA_ASSIGN(const int64_t size, length(self));
    return size > 0 ? element(runtime, self, size - 1) : runtime.undefined("", "the last element of an empty sequence");
  }
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  return items.empty() ? runtime.undefined("", "the last element of an empty sequence") : items.back();
}

Result<Value> filter_items(Runtime& runtime, const Value& self, const Bound&) {
  if (self.is_undefined()) return runtime.generator({});
  if (self.dict() == nullptr) return error("items needs a dict, not a ", type_name(self));
  std::vector<Value> items;
  for (const Dict::Entry& entry : self.dict()->entries) {
    LAMINA_ASSIGN(items.emplace_back(), runtime.pair(entry.key, entry.value));
  }
  return runtime.generator(items);
}

Result<Value> filter_join(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(std::span<const Value> items, elements(runtime, self));
  std::vector<Value> parts;
  if (arguments.set(1)) {
    LAMINA_ASSIGN(const AttributePath path, AttributePath::parse(runtime, arguments.value(1)));
    for (const Value& each : items) {
      LAMINA_ASSIGN(parts.emplace_back(), path.from(runtime, each));
    }
    items = parts;
  }
  const Text nothing;
  const Text* separator = &nothing;
  if (arguments.has(0)) {
    LAMINA_ASSIGN(separator, to_text(runtime, arguments.value(0)));
  }
  return joined(runtime, *separator, items);
}

Result<Value> filter_length(Runtime&, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const int64_t size, length(self));
  return Value(Integer{size});
}

Result<Value> filter_list(Runtime& runtime, const Value& self, const Bound&) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  return runtime.list(items);
}

Result<Value> filter_reverse(Runtime& runtime, const Value& self, const Bound&) {
  if (self.text() != nullptr) return sliced(runtime, self, {.step = Value(Integer{-1})});
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  const std::vector<Value> reversed(items.rbegin(), items.rend());
  return runtime.generator(reversed);
}

Result<Value> filter_batch(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  LAMINA_ASSIGN(const int64_t size, integer_of(arguments.value(0)));
  if (size < 1 || size > kMaxRange) return error("batch by ", size, "; 1 to ", kMaxRange, " are allowed");
  std::vector<Value> batches, batch;
  for (size_t i = 0; i < items.size(); ++i) {
    batch.push_back(items[i]);
    if (i + 1 == items.size() && arguments.set(1)) batch.resize(static_cast<size_t>(size), arguments.value(1));
    if (static_cast<int64_t>(batch.size()) < size && i + 1 < items.size()) continue;
    LAMINA_ASSIGN(batches.emplace_back(), runtime.list(batch));
    batch.clear();
  }
  return runtime.generator(batches);
}

Result<Value> filter_slice(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  LAMINA_ASSIGN(const int64_t slices, integer_of(arguments.value(0)));
  if (slices < 1 || slices > kMaxRange) return error("slice by ", slices, "; 1 to ", kMaxRange, " are allowed");
  const size_t count = static_cast<size_t>(slices), least = items.size() / count, longer = items.size() % count;
  std::vector<Value> out;
  size_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = least + (i < longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(begin), items.begin() + static_cast<std::ptrdiff_t>(begin + size));
    if (arguments.set(1) && i >= longer) part.push_back(arguments.value(1));
    LAMINA_ASSIGN(out.emplace_back(), runtime.list(part));
    begin += size;
  }
  return runtime.generator(out);
}

}  // namespace lamina::jinja
