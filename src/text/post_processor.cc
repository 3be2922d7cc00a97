#include "text/post_processor.h"

#include "text/class_patterns.h"
#include "text/vocab.h"

namespace lamina::text {
namespace {

Result<TokenId> parse_id(const JsonNode& owner, const Json& json) {
  if (!json.is_integer() || json.as_integer() < 0 || json.as_integer() >= kMaxTokenIds) return owner.fail("expected token ids");
  return static_cast<TokenId>(json.as_integer());
}

/// The ids that the template's special token `name` stands for.
Status append_special(const JsonNode& node, const std::string& name, std::vector<TokenId>& out) {
  LAMINA_ASSIGN(const JsonNode all, node.child("special_tokens"));
  LAMINA_ASSIGN(const JsonNode token, all.child(name));
  LAMINA_ASSIGN(const std::vector<JsonNode> ids, token.array("ids"));
  for (const JsonNode& id : ids) {
    LAMINA_ASSIGN(const TokenId value, parse_id(id, id.json()));
    out.push_back(value);
  }
  return {};
}

Result<PostProcessor> parse_template(const JsonNode& node) {
  PostProcessor result;
  int sequences = 0;
  LAMINA_ASSIGN(const std::vector<JsonNode> pieces, node.array("single"));
  for (const JsonNode& piece : pieces) {
    if (piece.has("SpecialToken")) {
      LAMINA_ASSIGN(const JsonNode token, piece.child("SpecialToken"));
      LAMINA_ASSIGN(const std::string name, token.string("id"));
      LAMINA_TRY(append_special(node, name, sequences == 0 ? result.prefix : result.suffix));
    } else {
      LAMINA_ASSIGN(const JsonNode sequence, piece.child("Sequence"));
      LAMINA_ASSIGN(const std::string name, sequence.string("id"));
      if (name != "A") return piece.fail("the sequence \"", name, "\" in the template of one text; only A is allowed");
      ++sequences;
    }
  }
  if (sequences != 1) return node.fail("single has the sequence A ", sequences, " times; once is allowed");
  return result;
}

/// "cls": ["<s>", 0]
Result<TokenId> parse_pair(const JsonNode& node, std::string_view key) {
  LAMINA_ASSIGN(const JsonNode pair, node.child(key));
  if (!pair.json().is_array() || pair.json().as_array().size() != 2) return pair.fail("expected [token, id]");
  return parse_id(pair, pair.json().as_array()[1]);
}

Result<PostProcessor> parse_nested(const JsonNode& node, int depth) {
  LAMINA_ASSIGN(const std::string type, node.type());
  PostProcessor result;
  if (type == "ByteLevel") return result;
  if (type == "TemplateProcessing") return parse_template(node);
  if (type == "RobertaProcessing") {
    LAMINA_ASSIGN(const TokenId cls, parse_pair(node, "cls"));
    LAMINA_ASSIGN(const TokenId sep, parse_pair(node, "sep"));
    return PostProcessor{{cls}, {sep}};
  }
  if (type != "Sequence") return node.fail("the post-processor \"", type, "\" is not supported");
  if (depth > kMaxNesting) return node.fail("sequences are nested too deeply");
  LAMINA_ASSIGN(const std::vector<JsonNode> items, node.array("processors"));
  for (const JsonNode& item : items) {
    LAMINA_ASSIGN(const PostProcessor next, parse_nested(item, depth + 1));
    result.prefix.insert(result.prefix.begin(), next.prefix.begin(), next.prefix.end());
    result.suffix.insert(result.suffix.end(), next.suffix.begin(), next.suffix.end());
  }
  return result;
}

}  // namespace

Result<PostProcessor> PostProcessor::parse(const JsonNode& node) { return parse_nested(node, 0); }

}  // namespace lamina::text
