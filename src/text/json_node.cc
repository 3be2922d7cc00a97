#include "text/json_node.h"

namespace lamina::text {

std::string JsonNode::path_to(std::string_view key) const { return path_.empty() ? std::string(key) : cat(path_, ".", key); }

bool JsonNode::has(std::string_view key) const {
  const Json* member = json_->find(key);
  return member != nullptr && !member->is_null();
}

Result<JsonNode> JsonNode::child(std::string_view key) const {
  if (!json_->is_object()) return expected("an object");
  const Json* member = json_->find(key);
  if (member == nullptr) return fail("the key \"", key, "\" is missing");
  JsonNode node(*member, file_, path_to(key));
  if (member->is_null()) return node.fail("must not be null");
  return node;
}

Result<std::string> JsonNode::string(std::string_view key) const {
  LAMINA_ASSIGN(const JsonNode node, child(key));
  if (!node.json_->is_string()) return node.expected("a string");
  return node.json_->as_string();
}

Result<std::string> JsonNode::string_or(std::string_view key, std::string_view fallback) const {
  if (!has(key)) return std::string(fallback);
  return string(key);
}

Result<bool> JsonNode::boolean(std::string_view key) const {
  LAMINA_ASSIGN(const JsonNode node, child(key));
  if (!node.json_->is_bool()) return node.expected("true or false");
  return node.json_->as_bool();
}

Result<bool> JsonNode::boolean_or(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  return boolean(key);
}

Result<int64_t> JsonNode::integer(std::string_view key, int64_t low, int64_t high) const {
  LAMINA_ASSIGN(const JsonNode node, child(key));
  if (!node.json_->is_integer()) return node.expected("an integer");
  const int64_t value = node.json_->as_integer();
  if (value < low || value > high) return node.fail(value, " is not in [", low, ", ", high, "]");
  return value;
}

Result<std::vector<JsonNode>> JsonNode::array(std::string_view key) const {
  LAMINA_ASSIGN(const JsonNode node, child(key));
  if (!node.json_->is_array()) return node.expected("an array");
  std::vector<JsonNode> items;
  const Json::Array& values = node.json_->as_array();
  for (size_t i = 0; i < values.size(); ++i) items.push_back(JsonNode(values[i], file_, cat(node.path_, "[", i, "]")));
  return items;
}

}  // namespace lamina::text
