#include "tests/fuzz/json_mutator.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/json.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t capacity);

namespace lamina::fuzz {
namespace {

class Mutation {
 public:
  explicit Mutation(uint32_t seed) : random_(seed) {}

  void apply(Json& root) {
    collect(root);
    Json& target = *values_[below(values_.size())];
    const Json donor = *values_[below(values_.size())];
    switch (below(6)) {
      case 0:
        target = donor;
        return;
      case 1:
        target = odd_value();
        return;
      case 2:
        return change_number(target);
      case 3:
        return change_text(target);
      case 4:
        return remove_from(target);
      default:
        return add_to(target, donor);
    }
  }

 private:
  size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }

  void collect(Json& value) {
    values_.push_back(&value);
    if (value.is_array()) {
      for (Json& item : value.as_array()) collect(item);
    } else if (value.is_object()) {
      for (auto& [key, item] : value.as_object()) collect(item);
    }
  }

  Json odd_value() {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    const Json values[] = {Json(),
                           Json(true),
                           Json(false),
                           Json(0),
                           Json(1),
                           Json(-1),
                           Json(int64_t{1} << 31),
                           kMost,
                           Json(-kMost - 1),
                           Json(0.5),
                           Json(1e300),
                           Json(-0.0),
                           Json(""),
                           Json("\xF0\x9F\x98\x80"),
                           Json(64),
                           Json(int64_t{1} << 40),
                           Json::array(),
                           Json::object(),
                           Json(std::string(300, 'a'))};
    return values[below(std::size(values))];
  }

  void change_number(Json& value) {
    if (value.is_integer()) {
      const auto bits = static_cast<uint64_t>(value.as_integer());
      const uint64_t changes[] = {bits + 1, bits - 1, bits * 2, bits / 2, ~bits + 1, bits ^ uint64_t{1} << below(64)};
      value = Json(static_cast<int64_t>(changes[below(std::size(changes))]));
    } else if (value.is_number()) {
      const double changes[] = {value.as_double() * 2, -value.as_double(), value.as_double() * 1e30, value.as_double() * 1e-30};
      value = Json(changes[below(std::size(changes))]);
    } else {
      value = odd_value();
    }
  }

  void change_text(Json& value) {
    if (!value.is_string()) return change_key(value);
    std::string text = value.as_string();
    const size_t size = text.size();
    text.resize(size + 16);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
    value = Json(std::move(text));
  }

  void change_key(Json& value) {
    if (!value.is_object() || value.as_object().empty()) return;
    Json::Object& members = value.as_object();
    std::swap(members[below(members.size())].second, members[below(members.size())].second);
  }

  void remove_from(Json& value) {
    if (value.is_array() && !value.as_array().empty()) {
      value.as_array().erase(value.as_array().begin() + static_cast<std::ptrdiff_t>(below(value.as_array().size())));
    } else if (value.is_object() && !value.as_object().empty()) {
      value.as_object().erase(value.as_object().begin() + static_cast<std::ptrdiff_t>(below(value.as_object().size())));
    } else {
      value = Json();
    }
  }

  void add_to(Json& value, const Json& item) {
    if (value.is_array()) {
      const size_t copies = below(8) == 0 ? 64 : 1;
      value.as_array().insert(value.as_array().end(), copies, item);
    } else if (value.is_object()) {
      value.set("x" + std::to_string(below(4)), item);
    } else {
      value = Json(Json::Array{value, item});
    }
  }

  std::minstd_rand random_;
  std::vector<Json*> values_;
};

}  // namespace

std::string mutate_json(std::string_view text, uint32_t seed) {
  Result<Json> root = parse_json(text, "input");
  if (!root.ok()) return std::string(text);
  Mutation(seed).apply(*root);
  return root->dump();
}

size_t mutate_json_input(uint8_t* data, size_t size, size_t capacity, uint32_t seed) {
  if (seed % 3 == 0) return LLVMFuzzerMutate(data, size, capacity);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string changed = mutate_json(text, seed);
  if (changed == text || changed.size() > capacity) return LLVMFuzzerMutate(data, size, capacity);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

}  // namespace lamina::fuzz
