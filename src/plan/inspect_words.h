#pragma once
// Reading the JSON of a plan, for pages of text. Keys are those of plan/inspect.h; a missing one is our own bug.

#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "plan/inspect.h"

namespace lamina::inspect_words {

inline int64_t number(const Json& object, std::string_view key) { return object.find(key)->as_integer(); }
inline const std::string& text(const Json& object, std::string_view key) { return object.find(key)->as_string(); }
inline const Json::Array& list(const Json& object, std::string_view key) { return object.find(key)->as_array(); }
inline std::string size(const Json& object, std::string_view key) { return size_string(static_cast<uint64_t>(number(object, key))); }

/// "0-15", "3", "none"
inline std::string range(const Json& object, std::string_view key) {
  const Json::Array& ends = list(object, key);
  const int64_t begin = ends[0].as_integer(), end = ends[1].as_integer();
  if (begin == end) return "none";
  return begin + 1 == end ? cat(begin) : cat(begin, "-", end - 1);
}

inline std::string shape(const Json& sizes) {
  std::vector<int64_t> out;
  for (const Json& extent : sizes.as_array()) out.push_back(extent.as_integer());
  return shape_string(out);
}

inline std::string source_text(const Json& source) {
  if (source.is_string()) return source.as_string();
  const Json::Array& bytes = list(source, "bytes");
  return cat(text(source, "tensor"), " ", text(source, "dtype"), " ", text(source, "file"), ":", bytes[0].as_integer(), "-",
             bytes[1].as_integer());
}

inline bool several(const Json& plan) { return plan.find("ranks") != nullptr && number(plan, "ranks") > 1; }

/// "LlamaForCausalLM, 2 ranks (tp 2 x pp 1), 16 layers, ..." and the end of the line.
std::string title(const Json& plan);
/// The tensors that are not loaded, each with its reason.
void append_skipped(std::string& out, const Json& plan);

}  // namespace lamina::inspect_words
