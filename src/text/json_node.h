#pragma once
// Reading a JSON file whose errors name the file and the key: "tokenizer.json: model.vocab: expected an object, found null".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/strings.h"

namespace lamina::text {

/// A value and its path inside a file. Views the Json and the file name; both must outlive it.
class JsonNode {
 public:
  JsonNode(const Json& json, std::string_view file) : json_(&json), file_(file) {}

  const Json& json() const { return *json_; }
  /// Present and not null.
  bool has(std::string_view key) const;

  /// The member `key` of this object; an error when it is missing or null.
  Result<JsonNode> child(std::string_view key) const;
  Result<std::string> string(std::string_view key) const;
  /// An absent or null member gives `fallback`.
  Result<std::string> string_or(std::string_view key, std::string_view fallback) const;
  Result<bool> boolean(std::string_view key) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<int64_t> integer(std::string_view key, int64_t low, int64_t high) const;
  Result<std::vector<JsonNode>> array(std::string_view key) const;
  /// The string "type" that every component of a tokenizer.json has.
  Result<std::string> type() const { return string("type"); }

  /// The error "FILE: PATH: message".
  template <class... Pieces>
  Error fail(const Pieces&... pieces) const {
    return error(file_, ": ", path_.empty() ? std::string_view("the document") : std::string_view(path_), ": ", pieces...);
  }
  Error expected(std::string_view what) const { return fail("expected ", what, ", found ", json_->kind_name()); }

 private:
  JsonNode(const Json& json, std::string_view file, std::string path) : json_(&json), file_(file), path_(std::move(path)) {}
  std::string path_to(std::string_view key) const;

  const Json* json_;
  std::string_view file_;
  std::string path_;
};

}  // namespace lamina::text
