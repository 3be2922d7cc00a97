#include "text/bpe_json.h"

#include <algorithm>

namespace lamina::text {
namespace {

Result<Vocab> parse_vocab(const JsonNode& model) {
  LAMINA_ASSIGN(const JsonNode node, model.child("vocab"));
  if (!node.json().is_object()) return node.expected("an object of tokens and ids");
  const Json::Object& members = node.json().as_object();
  if (members.empty()) return node.fail("has no tokens");
  Vocab vocab(members.size());
  for (const auto& [token, id] : members) {
    if (!id.is_integer()) return node.fail("the id of \"", token, "\": expected an integer, found ", id.kind_name());
    const int64_t value = id.as_integer();
    if (value < 0) return node.fail("the id of \"", token, "\": ", value, " is negative");
    LAMINA_TRY(check_density(node, value, members.size()));
    if (!vocab.add(token, static_cast<TokenId>(value))) {
      const std::optional<std::string_view> other = vocab.text(static_cast<TokenId>(value));
      return node.fail("the id ", value, " is given to \"", other.value_or(""), "\" and to \"", token, "\"");
    }
  }
  return vocab;
}

struct TokenPair {
  std::string_view left, right;
};

/// One merge, written "left right" or ["left", "right"].
Result<TokenPair> parse_merge(const JsonNode& model, const Json& json, size_t index) {
  const auto bad = [&] { return model.fail("merges[", index, "]: expected \"left right\" or [\"left\", \"right\"]"); };
  if (json.is_string()) {
    const std::string_view text = json.as_string();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return bad();
    return TokenPair{text.substr(0, space), text.substr(space + 1)};
  }
  if (!json.is_array() || json.as_array().size() != 2) return bad();
  const Json::Array& pair = json.as_array();
  if (!pair[0].is_string() || !pair[1].is_string()) return bad();
  return TokenPair{pair[0].as_string(), pair[1].as_string()};
}

/// Reads the merges; sets options.joins_mark.
Result<MergeTable> parse_merges(const JsonNode& model, const Vocab& vocab, const std::vector<TokenId>& reserved, BpeOptions& options) {
  const std::string_view prefix = options.continuing_subword_prefix;
  LAMINA_ASSIGN(const JsonNode node, model.child("merges"));
  if (!node.json().is_array()) return node.expected("an array");
  const Json::Array& items = node.json().as_array();
  MergeTable table(items.size());
  std::string joined;
  uint32_t rank = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_string() && items[i].as_string().starts_with("#version")) continue;
    LAMINA_ASSIGN(const TokenPair pair, parse_merge(model, items[i], i));
    const auto unknown = [&](std::string_view token) { return model.fail("merges[", i, "]: \"", token, "\" is not in vocab"); };
    const std::optional<TokenId> left = vocab.find(pair.left), right = vocab.find(pair.right);
    if (!left) return unknown(pair.left);
    if (!right) return unknown(pair.right);
    if (pair.right.size() < prefix.size()) return model.fail("merges[", i, "]: \"", pair.right, "\" lacks continuing_subword_prefix");
    joined = pair.left;
    joined += pair.right.substr(prefix.size());
    const std::optional<TokenId> id = vocab.find(joined);
    if (!id) return unknown(joined);
    if (!std::ranges::binary_search(reserved, *id)) table.set(*left, *right, {rank, *id});
    if (pair.right.starts_with(kSpaceMark) && !pair.left.empty()) options.joins_mark[static_cast<uint8_t>(pair.left.back())] = true;
    ++rank;
  }
  return table;
}

}  // namespace

Status check_model_type(const JsonNode& model) {
  if (!model.json().is_object()) return model.expected("an object");
  // Files older than the field are BPE when they have merges.
  if (!model.has("type") && model.has("merges")) return {};
  LAMINA_ASSIGN(const std::string type, model.type());
  if (type == "BPE") return {};
  if (type == "WordPiece" || type == "Unigram" || type == "WordLevel")
    return model.fail("type \"", type, "\" is not supported yet: it comes later; supported: BPE");
  return model.fail("type \"", type, "\" is not known; supported: BPE");
}

Status check_density(const JsonNode& node, int64_t id, size_t tokens) {
  const int64_t limit = std::min(kMaxTokenIds, static_cast<int64_t>(4 * tokens + 65536));
  if (id < limit) return {};
  return node.fail("the id ", id, " is far beyond the number of tokens (", tokens, "); ids below ", limit, " are allowed");
}

Result<Bpe> parse_bpe(const JsonNode& model, bool byte_level, std::vector<TokenId> reserved) {
  LAMINA_TRY(check_model_type(model));
  if (model.has("dropout")) {
    const Json* dropout = model.json().find("dropout");
    if (!dropout->is_number() || dropout->as_double() != 0) return model.fail("dropout must be null or 0: encoding is not random");
  }
  BpeOptions options{.byte_level = byte_level};
  LAMINA_ASSIGN(options.unk_token, model.string_or("unk_token", ""));
  LAMINA_ASSIGN(options.continuing_subword_prefix, model.string_or("continuing_subword_prefix", ""));
  LAMINA_ASSIGN(options.end_of_word_suffix, model.string_or("end_of_word_suffix", ""));
  LAMINA_ASSIGN(options.fuse_unk, model.boolean_or("fuse_unk", false));
  LAMINA_ASSIGN(options.byte_fallback, model.boolean_or("byte_fallback", false));
  LAMINA_ASSIGN(options.ignore_merges, model.boolean_or("ignore_merges", false));
  LAMINA_ASSIGN(Vocab vocab, parse_vocab(model));
  LAMINA_ASSIGN(MergeTable merges, parse_merges(model, vocab, reserved, options));
  return Bpe(std::move(vocab), std::move(merges), std::move(options), std::move(reserved));
}

}  // namespace lamina::text
