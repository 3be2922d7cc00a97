#pragma once
// One render's memory and account of steps, and how values are made.

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/heap.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace lamina::jinja {

class Runtime {
 public:
  explicit Runtime(const std::tm& now) : now_(now) {}

  Heap& heap() { return heap_; }
  const std::tm& now() const { return now_; }

  // The account. What loops inside counts its work and stops once exhausted() (with any value: the next check() ends the render).
  void work(uint64_t steps) { steps_ += steps; }
  void work_bytes(size_t bytes) { steps_ += bytes / 32; }
  bool exhausted() const { return steps_ > kMaxSteps || heap_.used() > kMaxBytes; }
  /// The error that names the limit which is exceeded.
  Status check() const;
  /// check(), and whether so much more fits: before something large is made.
  Status room(double bytes) const;

  Value text(const Text& text) { return Value(static_cast<const Text*>(heap_.make<Text>(text))); }
  /// `view` outlives the render; the template's own.
  Value text(std::string_view view) { return text(plain_text(view)); }
  Value text(const TextBuilder& builder, bool markup = false) { return text(builder.finish(heap_, markup)); }
  /// A copy; the template's own.
  Value copied(std::string_view bytes) { return text(heap_.copy(bytes)); }
  Value undefined(std::string_view owner, std::string_view name, bool unsafe = false) {
    return Value(static_cast<const Undefined*>(heap_.make<Undefined>(owner, name, unsafe)));
  }
  /// Fails for nesting over kMaxValueDepth.
  Result<Value> list(std::span<const Value> items, List::Type type = List::Type::kList);
  Result<Value> generator(std::span<const Value> items);
  /// A dict; of entries with equal keys the first place and the last value count. Fails for keys that cannot be hashed.
  Result<Value> dict(std::vector<Dict::Entry> entries);
  /// A list and a tuple of two.
  Result<Value> pair(const Value& first, const Value& second);
  /// Views `json`, which outlives the render. `user` is the origin of its strings. Fails for nesting over kMaxValueDepth.
  Result<Value> from_json(const Json& json, bool user);

 private:
  Result<Value> from_json(const Json& json, bool user, int depth);
  Value indexed_dict(std::span<const Dict::Entry> entries, int depth);

  Heap heap_;
  uint64_t steps_ = 0;
  std::tm now_;
};

/// Whether a value can be a key: no list, no dict, no tuple of such.
bool hashable(const Value& value);
/// For each entry the place of the first one with an equal key; its own where none comes before.
std::vector<uint32_t> first_of_equals(Runtime& runtime, std::span<const Dict::Entry> entries);

/// The entry of `key`, or nullptr. Keys of other types than text are searched one by one.
const Value* find(Runtime& runtime, const Dict& dict, const Value& key);
const Value* find(const Dict& dict, std::string_view key);

}  // namespace lamina::jinja
