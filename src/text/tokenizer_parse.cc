// Tokenizer::load and parse: from files to tables.

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "text/bpe_json.h"
#include "text/json_node.h"
#include "text/tokenizer_tables.h"

namespace lamina {
namespace {

using text::AddedToken;
using text::JsonNode;

Result<std::vector<AddedToken>> parse_added_tokens(const JsonNode& root) {
  std::vector<AddedToken> tokens;
  if (!root.has("added_tokens")) return tokens;
  LAMINA_ASSIGN(const std::vector<JsonNode> items, root.array("added_tokens"));
  for (const JsonNode& item : items) {
    LAMINA_ASSIGN(AddedToken token, text::parse_added_token(item));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<TokenId> special_ids(const std::vector<AddedToken>& tokens) {
  std::vector<TokenId> ids;
  for (const AddedToken& token : tokens)
    if (token.special) ids.push_back(token.id);
  std::ranges::sort(ids);
  return ids;
}

/// Added tokens agree with the vocabulary and among themselves on which id is which text.
Status check_added_tokens(const JsonNode& root, const std::vector<AddedToken>& tokens, const text::Vocab& vocab) {
  LAMINA_ASSIGN(const std::vector<JsonNode> items,
                tokens.empty() ? Result<std::vector<JsonNode>>(std::vector<JsonNode>()) : root.array("added_tokens"));
  text::Vocab seen(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const AddedToken& token = tokens[i];
    const auto clash = [&](std::string_view other) {
      return items[i].fail("the id ", token.id, " is given to \"", token.content, "\" and to \"", other, "\"");
    };
    LAMINA_TRY(text::check_density(items[i], token.id, vocab.end_id() + tokens.size()));
    if (const auto in_vocab = vocab.find(token.content); in_vocab && *in_vocab != token.id)
      return items[i].fail("\"", token.content, "\" has the id ", token.id, " here and ", *in_vocab, " in model.vocab");
    if (const auto other = vocab.text(token.id); other && *other != token.content) return clash(*other);
    if (seen.add(token.content, token.id)) continue;
    if (const auto other = seen.text(token.id); other && *other != token.content) return clash(*other);
    return items[i].fail("\"", token.content, "\" is listed twice");
  }
  return {};
}

template <class Component>
Result<Component> parse_component(const JsonNode& root, std::string_view key) {
  if (!root.has(key)) return Component();
  LAMINA_ASSIGN(const JsonNode node, root.child(key));
  if (!node.json().is_object()) return node.expected("an object or null");
  return Component::parse(node);
}

Result<std::vector<std::string>> added_texts(const std::vector<AddedToken>& tokens, const text::Normalizer& normalizer) {
  std::vector<std::string> texts;
  text::MatchScratch scratch;
  std::string buffer;
  for (const AddedToken& token : tokens) {
    if (token.normalized) {
      LAMINA_ASSIGN(const std::string_view normalized, normalizer.apply(token.content, buffer, scratch));
      texts.emplace_back(normalized);
    } else {
      texts.push_back(token.content);
    }
  }
  return texts;
}

/// "bos_token": "<s>" or {"content": "<s>", ...}.
Result<std::optional<std::string>> parse_token_name(const JsonNode& config, std::string_view key) {
  if (!config.has(key)) return std::optional<std::string>();
  LAMINA_ASSIGN(const JsonNode node, config.child(key));
  if (node.json().is_string()) return std::optional(node.json().as_string());
  if (!node.json().is_object()) return node.expected("a string or an object with \"content\"");
  LAMINA_ASSIGN(std::string content, node.string("content"));
  return std::optional(std::move(content));
}

}  // namespace

Result<std::shared_ptr<Tokenizer::Tables>> Tokenizer::parse_tables(std::string_view tokenizer_json, std::string_view what) {
  LAMINA_ASSIGN(const Json json, parse_json(tokenizer_json, what));
  const JsonNode root(json, what);
  if (!json.is_object()) return root.expected("an object");
  LAMINA_ASSIGN(const JsonNode model_node, root.child("model"));
  LAMINA_TRY(text::check_model_type(model_node));  // first: the other components of such a file may be unknown too
  LAMINA_ASSIGN(std::vector<AddedToken> added, parse_added_tokens(root));
  LAMINA_ASSIGN(text::Normalizer normalizer, parse_component<text::Normalizer>(root, "normalizer"));
  LAMINA_ASSIGN(text::PreTokenizer pre_tokenizer, parse_component<text::PreTokenizer>(root, "pre_tokenizer"));
  LAMINA_ASSIGN(text::Bpe model, text::parse_bpe(model_node, pre_tokenizer.byte_level(), special_ids(added)));
  LAMINA_TRY(check_added_tokens(root, added, model.vocab()));
  LAMINA_ASSIGN(std::vector<std::string> texts, added_texts(added, normalizer));
  text::AddedTokens added_tokens(std::move(added), texts);
  auto tables = std::make_shared<Tables>(std::move(normalizer), std::move(pre_tokenizer), std::move(model), std::move(added_tokens));
  tables->added_texts = std::move(texts);
  LAMINA_ASSIGN(tables->post_processor, parse_component<text::PostProcessor>(root, "post_processor"));
  LAMINA_ASSIGN(tables->decoder, parse_component<text::Decoder>(root, "decoder"));
  tables->vocab_size = tables->model.vocab().end_id();
  for (const AddedToken& token : tables->added.tokens()) tables->vocab_size = std::max(tables->vocab_size, token.id + 1);
  for (const auto* ids : {&tables->post_processor.prefix, &tables->post_processor.suffix})
    for (const TokenId id : *ids)
      if (!tables->decoded_token(id, false)) return error(what, ": post_processor: the id ", id, " has no token");
  return tables;
}

Result<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json, std::string_view what) {
  LAMINA_ASSIGN(std::shared_ptr<Tables> tables, parse_tables(tokenizer_json, what));
  return Tokenizer(std::move(tables));
}

Result<Tokenizer> Tokenizer::load(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  LAMINA_ASSIGN(const std::string json, read_file(path));
  LAMINA_ASSIGN(std::shared_ptr<Tables> tables, parse_tables(json, path));
  const std::string config_path = folder + "/tokenizer_config.json";
  if (file_exists(config_path)) {
    LAMINA_ASSIGN(const std::string config_text, read_file(config_path));
    LAMINA_ASSIGN(const Json config_json, parse_json(config_text, config_path));
    const JsonNode config(config_json, config_path);
    if (!config_json.is_object()) return config.expected("an object");
    LAMINA_ASSIGN(tables->bos_token, parse_token_name(config, "bos_token"));
    LAMINA_ASSIGN(tables->eos_token, parse_token_name(config, "eos_token"));
  }
  return Tokenizer(std::move(tables));
}

}  // namespace lamina
