#pragma once
// What expressions of a template evaluate to: Python's values as far as templates can see them. Trivially copyable; what a value points
// to lies in the heap of its render, or in the template and inputs that outlive it. All but iterators, namespaces, loops, cyclers and
// joiners is immutable.

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/marked_text.h"

namespace lamina::jinja {

__extension__ typedef __int128 Integer;  // NOLINT(modernize-use-using): __extension__ wants it. What does not fit is an error

struct Undefined;
struct List;
struct Dict;
struct Iterator;
struct Namespace;
struct Loop;
struct Function;
struct Cycler;
struct Joiner;

/// range(start, stop, step).
struct Range {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const {
    if (step > 0) return stop > start ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
  }
  int64_t at(int64_t index) const { return start + index * step; }
};

struct None {};

class Value {
 public:
  /// In the order of the variant below.
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kText,
    kList,
    kDict,
    kRange,
    kIterator,
    kNamespace,
    kLoop,
    kFunction,
    kCycler,
    kJoiner
  };

  Value() = default;  // undefined, about which nothing more is known
  template <class T>
  explicit Value(T value) : value_(value) {}  // T is exactly one of the alternatives

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }
  /// The alternative must be held.
  template <class T>
  const T& as() const {
    return *std::get_if<T>(&value_);
  }
  const Text* text() const { return pointer<const Text>(); }
  const List* list() const { return pointer<const List>(); }
  const Dict* dict() const { return pointer<const Dict>(); }
  const Range* range() const { return pointer<const Range>(); }
  Iterator* iterator() const { return pointer<Iterator>(); }
  Namespace* name_space() const { return pointer<Namespace>(); }
  Loop* loop() const { return pointer<Loop>(); }
  const Function* function() const { return pointer<const Function>(); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  /// Integers and bools.
  bool is_integral() const { return kind() == Kind::kInteger || kind() == Kind::kBool; }
  bool is_number() const { return is_integral() || kind() == Kind::kFloat; }
  /// Of an integral value.
  Integer integer() const { return kind() == Kind::kBool ? Integer{as<bool>()} : as<Integer>(); }
  /// Of a number.
  double number() const { return kind() == Kind::kFloat ? as<double>() : static_cast<double>(integer()); }

 private:
  template <class T>
  T* pointer() const {
    T* const* held = std::get_if<T*>(&value_);
    return held == nullptr ? nullptr : *held;
  }

  std::variant<const Undefined*, None, bool, Integer, double, const Text*, const List*, const Dict*, const Range*, Iterator*, Namespace*,
               Loop*, const Function*, Cycler*, Joiner*>
      value_ = static_cast<const Undefined*>(nullptr);
};
static_assert(std::is_trivially_copyable_v<Value>);

/// Why a value is undefined, for errors.
struct Undefined {
  std::string_view owner;  // kind of the object that lacks it; empty for a variable
  std::string_view name;
  bool unsafe = false;  // it exists in Python, and the sandbox denies it
};

/// Sequences whose elements lie in memory. `depth` counts lists and objects inside one another, this one included.
struct List {
  enum class Type { kList, kTuple, kKeys, kValues, kItems, kGroup };  // three views of a dict; what groupby gives
  std::span<const Value> items;
  Type type = Type::kList;
  int depth = 1;
};

struct Dict {
  struct Entry {
    Value key, value;
  };
  std::span<const Entry> entries;       // in order of insertion; keys are unique
  std::span<const uint32_t> by_text{};  // entries with text keys, sorted by key; empty for few entries
  int depth = 1;
};

/// A generator: what map, select and their kin give. Each element comes once.
struct Iterator {
  std::span<const Value> items;
  int depth = 1;
};

struct Namespace {
  explicit Namespace(Heap& heap) : attributes(&heap) {}
  std::pmr::vector<std::pair<std::string_view, Value>> attributes;
  Value* find(std::string_view name) {
    for (auto& [key, value] : attributes)
      if (key == name) return &value;
    return nullptr;
  }
};

struct For;
struct Scope;

struct Loop {
  std::span<const Value> items;
  const For* node = nullptr;
  Scope* outer = nullptr;
  int64_t depth = 0;  // 0 for a loop that no recursion entered
  int64_t index = 0;
  std::optional<Value> changed{};  // what loop.changed() last saw
};

struct Native;
struct Macro;
struct Block;

/// Exactly one of native, macro and block is set.
struct Function {
  const Native* native = nullptr;
  Value self{};  // of a method
  const Macro* macro = nullptr;
  Scope* scope = nullptr;  // where the macro was defined
  const Block* block = nullptr;
};

struct Cycler {
  std::span<const Value> items;
  size_t next = 0;
};

struct Joiner {
  Value separator;
  bool used = false;
};

/// Python's name of the type: "str", "NoneType", "dict".
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
/// Nesting of lists and objects in a value: 0 for a scalar.
int depth_of(const Value& value);

}  // namespace lamina::jinja
