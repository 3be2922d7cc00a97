// Filters that compare elements.
#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/filters.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode_text.h"

namespace lamina::jinja {
namespace {

/// For each item what `path` reaches, ready to be compared.
Result<std::vector<Value>> keys_of(Runtime& runtime, std::span<const Value> items, const AttributePath& path, bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& each : items) {
    LAMINA_ASSIGN(const Value value, path.from(runtime, each));
    keys.push_back(comparable(runtime, value, case_sensitive));
    LAMINA_TRY(runtime.check());
  }
  return keys;
}

Result<AttributePath> optional_path(Runtime& runtime, const Bound& arguments, int i) {
  return arguments.set(i) ? AttributePath::parse(runtime, arguments.value(i)) : Result<AttributePath>(AttributePath());
}

/// The paths of "a,b.c", or of one value; none given is the element itself.
Result<std::vector<AttributePath>> paths_of(Runtime& runtime, const Bound& arguments, int i) {
  std::vector<AttributePath> paths;
  const Text* text = arguments.set(i) ? arguments.value(i).text() : nullptr;
  if (text == nullptr) {
    LAMINA_ASSIGN(paths.emplace_back(), optional_path(runtime, arguments, i));
    return paths;
  }
  for (const Piece& piece : split_at(text->bytes, ",", -1)) {
    const Value part = runtime.text(slice(runtime.heap(), *text, piece.begin, piece.end));
    LAMINA_ASSIGN(paths.emplace_back(), AttributePath::parse(runtime, part));
  }
  return paths;
}

Result<Value> list_in_order(Runtime& runtime, std::span<const Value> items, std::span<const size_t> places) {
  std::vector<Value> out;
  for (const size_t place : places) out.push_back(items[place]);
  return runtime.list(out);
}

Result<Value> extreme(Runtime& runtime, const Value& self, const Bound& arguments, int sign) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  if (items.empty()) return runtime.undefined("", "the extreme of an empty sequence");
  LAMINA_ASSIGN(const AttributePath path, optional_path(runtime, arguments, 1));
  LAMINA_ASSIGN(const std::vector<Value> keys, keys_of(runtime, items, path, flag_or(arguments, 0, false)));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    LAMINA_ASSIGN(const int found, order(runtime, keys[i], keys[best]));
    if (found * sign > 0) best = i;
  }
  return items[best];
}

}  // namespace

Value comparable(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || value.text() == nullptr) return value;
  return in_case(runtime, *value.text(), Case::kLower);
}

Result<std::vector<size_t>> sorted_places(Runtime& runtime, std::span<const Value> keys, bool reverse) {
  std::vector<size_t> places(keys.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::optional<Error> problem;
  const auto before = [&](size_t left, size_t right) {
    if (problem) return false;
    const Result<int> found = order(runtime, keys[left], keys[right]);
    if (!found.ok()) problem = found.error();
    return found.ok() && !runtime.exhausted() && (reverse ? *found > 0 : *found < 0);
  };
  std::stable_sort(places.begin(), places.end(), before);
  if (problem) return *problem;
  return places;
}

Result<Value> filter_sort(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  LAMINA_ASSIGN(const std::vector<AttributePath> paths, paths_of(runtime, arguments, 2));
  std::vector<Value> keys;  // lists, which compare part by part
  for (const Value& each : items) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      LAMINA_ASSIGN(const Value value, path.from(runtime, each));
      parts.push_back(comparable(runtime, value, flag_or(arguments, 1, false)));
    }
    LAMINA_ASSIGN(keys.emplace_back(), runtime.list(parts));
    LAMINA_TRY(runtime.check());
  }
  LAMINA_ASSIGN(const std::vector<size_t> places, sorted_places(runtime, keys, flag_or(arguments, 0, false)));
  return list_in_order(runtime, items, places);
}

Result<Value> filter_dictsort(Runtime& runtime, const Value& self, const Bound& arguments) {
  if (self.dict() == nullptr) return error("dictsort needs a dict, not a ", type_name(self));
  const Text key = plain_text("key");
  LAMINA_ASSIGN(const Text* by, text_or(arguments, 1, &key));
  if (by->bytes != "key" && by->bytes != "value") return error("dictsort sorts by 'key' or 'value', not by '", by->bytes, "'");
  std::vector<Value> pairs, keys;
  for (const Dict::Entry& entry : self.dict()->entries) {
    LAMINA_ASSIGN(pairs.emplace_back(), runtime.pair(entry.key, entry.value));
    keys.push_back(comparable(runtime, by->bytes == "key" ? entry.key : entry.value, flag_or(arguments, 0, false)));
  }
  LAMINA_ASSIGN(const std::vector<size_t> places, sorted_places(runtime, keys, flag_or(arguments, 2, false)));
  return list_in_order(runtime, pairs, places);
}

Result<Value> filter_max(Runtime& runtime, const Value& self, const Bound& arguments) { return extreme(runtime, self, arguments, 1); }
Result<Value> filter_min(Runtime& runtime, const Value& self, const Bound& arguments) { return extreme(runtime, self, arguments, -1); }

Result<Value> filter_unique(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  LAMINA_ASSIGN(const AttributePath path, optional_path(runtime, arguments, 1));
  LAMINA_ASSIGN(const std::vector<Value> keys, keys_of(runtime, items, path, flag_or(arguments, 0, false)));
  std::vector<Dict::Entry> entries;
  for (const Value& key : keys) {
    if (!hashable(key)) return error("unique cannot compare a ", type_name(key));
    entries.push_back({key, Value()});
  }
  const std::vector<uint32_t> first = first_of_equals(runtime, entries);
  std::vector<Value> kept;
  for (size_t i = 0; i < items.size(); ++i)
    if (first[i] == i) kept.push_back(items[i]);
  return runtime.generator(kept);
}

Result<Value> filter_groupby(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const std::span<const Value> items, elements(runtime, self));
  LAMINA_ASSIGN(const AttributePath path, AttributePath::parse(runtime, arguments.value(0)));
  std::vector<Value> values, keys;
  for (const Value& each : items) {
    LAMINA_ASSIGN(values.emplace_back(), path.from(runtime, each, arguments.set(1) ? &arguments.value(1) : nullptr));
    keys.push_back(comparable(runtime, values.back(), flag_or(arguments, 2, false)));
  }
  LAMINA_ASSIGN(const std::vector<size_t> places, sorted_places(runtime, keys, false));
  std::vector<Value> groups, members;
  for (size_t i = 0; i < places.size(); ++i) {
    members.push_back(items[places[i]]);
    if (i + 1 < places.size() && equal(runtime, keys[places[i]], keys[places[i + 1]])) continue;
    const Value& grouper = values[places[i + 1 - members.size()]];
    LAMINA_ASSIGN(const Value list, runtime.list(members));
    const Value parts[] = {grouper, list};
    LAMINA_ASSIGN(groups.emplace_back(), runtime.list(parts, List::Type::kGroup));
    members.clear();
  }
  return runtime.list(groups);
}

}  // namespace lamina::jinja
