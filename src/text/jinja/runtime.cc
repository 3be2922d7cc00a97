#include "text/jinja/runtime.h"

#include <algorithm>

#include "base/strings.h"
#include "text/jinja/compare.h"

namespace lamina::jinja {
namespace {

constexpr size_t kFewEntries = 8;  // searched one by one

int depth_around(std::span<const Value> items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  return depth + 1;
}

Error too_deep() { return error("more than ", kMaxValueDepth, " lists and objects inside one another"); }

std::string_view key_text(const Dict::Entry& entry) { return entry.key.text()->bytes; }

/// Positions of the entries with text keys, sorted by key; equal keys in order of position.
std::vector<uint32_t> sorted_by_text(std::span<const Dict::Entry> entries) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < entries.size(); ++i)
    if (entries[i].key.text() != nullptr) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return key_text(entries[i]); });
  return order;
}

}  // namespace

bool hashable(const Value& value) {
  if (value.dict() != nullptr) return false;
  const List* list = value.list();
  if (list == nullptr) return true;
  if (list->type != List::Type::kTuple && list->type != List::Type::kGroup) return false;
  return std::all_of(list->items.begin(), list->items.end(), hashable);
}

std::vector<uint32_t> first_of_equals(Runtime& runtime, std::span<const Dict::Entry> entries) {
  std::vector<uint32_t> first(entries.size());
  const std::vector<uint32_t> order = sorted_by_text(entries);
  for (size_t i = 0; i < order.size(); ++i) {
    const bool twin = i > 0 && key_text(entries[order[i]]) == key_text(entries[order[i - 1]]);
    first[order[i]] = twin ? first[order[i - 1]] : order[i];
  }
  std::vector<uint32_t> others;  // with keys of other types, each different
  for (uint32_t i = 0; i < entries.size() && !runtime.exhausted(); ++i) {
    if (entries[i].key.text() != nullptr) continue;
    runtime.work(others.size() / 4);
    const auto twin = std::ranges::find_if(others, [&](uint32_t other) { return equal(runtime, entries[other].key, entries[i].key); });
    first[i] = twin == others.end() ? i : *twin;
    if (first[i] == i) others.push_back(i);
  }
  return first;
}

Status Runtime::check() const { return room(0); }

Status Runtime::room(double bytes) const {
  if (steps_ > kMaxSteps) return error("the template takes more than ", kMaxSteps, " steps");
  if (static_cast<double>(heap_.used()) + bytes > static_cast<double>(kMaxBytes))
    return error("the template takes more than ", kMaxBytes >> 20, " MiB of memory");
  return {};
}

Result<Value> Runtime::list(std::span<const Value> items, List::Type type) {
  const int depth = depth_around(items);
  if (depth > kMaxValueDepth) return too_deep();
  work(items.size());
  return Value(static_cast<const List*>(heap_.make<List>(heap_.copy(items), type, depth)));
}

Result<Value> Runtime::generator(std::span<const Value> items) {
  const int depth = depth_around(items);
  if (depth > kMaxValueDepth) return too_deep();
  work(items.size());
  return Value(heap_.make<Iterator>(heap_.copy(items), depth));
}

Result<Value> Runtime::pair(const Value& first, const Value& second) {
  const Value items[] = {first, second};
  return list(items, List::Type::kTuple);
}

Value Runtime::indexed_dict(std::span<const Dict::Entry> entries, int depth) {
  Dict* dict = heap_.make<Dict>(entries, std::span<const uint32_t>(), depth);
  if (entries.size() > kFewEntries) dict->by_text = heap_.copy(std::span<const uint32_t>(sorted_by_text(entries)));
  work(entries.size());
  return Value(static_cast<const Dict*>(dict));
}

Result<Value> Runtime::dict(std::vector<Dict::Entry> entries) {
  int depth = 0;
  for (const Dict::Entry& entry : entries) {
    if (!hashable(entry.key)) return error("a ", type_name(entry.key), " cannot be a key of a dict");
    depth = std::max({depth, depth_of(entry.key), depth_of(entry.value)});
  }
  if (depth >= kMaxValueDepth) return too_deep();
  const std::vector<uint32_t> first = first_of_equals(*this, entries);
  size_t kept = 0;
  std::vector<uint32_t> place(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (first[i] != i) {
      entries[place[first[i]]].value = entries[i].value;
      continue;
    }
    place[i] = static_cast<uint32_t>(kept);
    entries[kept++] = entries[i];
  }
  return indexed_dict(heap_.copy(std::span<const Dict::Entry>(entries.data(), kept)), depth + 1);
}

Result<Value> Runtime::from_json(const Json& json, bool user) { return from_json(json, user, 0); }

Result<Value> Runtime::from_json(const Json& json, bool user, int depth) {
  if (depth > kMaxValueDepth) return too_deep();
  switch (json.kind()) {
    case Json::Kind::kNull:
      return Value(None());
    case Json::Kind::kBool:
      return Value(json.as_bool());
    case Json::Kind::kInteger:
      return Value(Integer{json.as_integer()});
    case Json::Kind::kDouble:
      return json.wide_integer() != 0 ? Value(Integer{json.wide_integer()}) : Value(json.as_double());
    case Json::Kind::kString:
      return text(Text{.bytes = json.as_string(), .user = user});
    case Json::Kind::kArray: {
      std::vector<Value> items;
      for (const Json& item : json.as_array()) {
        LAMINA_ASSIGN(items.emplace_back(), from_json(item, user, depth + 1));
      }
      return list(items);
    }
    case Json::Kind::kObject:
      break;
  }
  std::vector<Dict::Entry> entries;
  int inner = 0;
  for (const auto& [key, member] : json.as_object()) {
    LAMINA_ASSIGN(const Value value, from_json(member, user, depth + 1));
    entries.push_back({text(Text{.bytes = key, .user = user}), value});
    inner = std::max(inner, depth_of(value));
  }
  return indexed_dict(heap_.copy(std::span<const Dict::Entry>(entries)), inner + 1);
}

const Value* find(const Dict& dict, std::string_view key) {
  if (dict.by_text.empty()) {
    for (const Dict::Entry& entry : dict.entries) {
      if (entry.key.text() != nullptr && key_text(entry) == key) return &entry.value;
    }
    return nullptr;
  }
  const auto key_at = [&](uint32_t i) { return key_text(dict.entries[i]); };
  const auto found = std::ranges::lower_bound(dict.by_text, key, {}, key_at);
  return found == dict.by_text.end() || key_at(*found) != key ? nullptr : &dict.entries[*found].value;
}

const Value* find(Runtime& runtime, const Dict& dict, const Value& key) {
  if (const Text* text = key.text()) return find(dict, text->bytes);
  runtime.work(dict.entries.size() / 4);
  for (const Dict::Entry& entry : dict.entries) {
    if (entry.key.text() == nullptr && equal(runtime, entry.key, key)) return &entry.value;
  }
  return nullptr;
}

}  // namespace lamina::jinja
