#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode_class.h"
#include "text/vocab.h"

namespace lamina::text {
namespace {

bool starts_with_word_character(std::string_view text) {
  size_t pos = 0;
  return !text.empty() && is_word_character(next_code_point(text, pos));
}

/// Offset of the last character of `text`, which is not empty.
size_t last_character(std::string_view text) {
  size_t pos = text.size() - 1;
  while (pos > 0 && (text[pos] & 0xC0) == 0x80) --pos;
  return pos;
}

bool ends_with_word_character(std::string_view text) {
  return !text.empty() && starts_with_word_character(text.substr(last_character(text)));
}

bool starts_with_white_space(std::string_view text) {
  size_t pos = 0;
  return !text.empty() && is_white_space(next_code_point(text, pos));
}

size_t leading_white_space(std::string_view text) {
  size_t pos = 0;
  while (starts_with_white_space(text.substr(pos))) next_code_point(text, pos);
  return pos;
}

size_t trailing_white_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && starts_with_white_space(text.substr(last_character(text.substr(0, end))))) end = last_character(text.substr(0, end));
  return text.size() - end;
}

}  // namespace

Result<AddedToken> parse_added_token(const JsonNode& node) {
  AddedToken token;
  LAMINA_ASSIGN(token.content, node.string("content"));
  if (token.content.empty()) return node.fail("content must not be empty");
  LAMINA_ASSIGN(const int64_t id, node.integer("id", 0, kMaxTokenIds - 1));
  token.id = static_cast<TokenId>(id);
  LAMINA_ASSIGN(token.special, node.boolean_or("special", false));
  LAMINA_ASSIGN(token.single_word, node.boolean_or("single_word", false));
  LAMINA_ASSIGN(token.lstrip, node.boolean_or("lstrip", false));
  LAMINA_ASSIGN(token.rstrip, node.boolean_or("rstrip", false));
  LAMINA_ASSIGN(token.normalized, node.boolean_or("normalized", !token.special));
  return token;
}

void TokenFinder::add(std::string_view content, size_t token) {
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t& child = node == 0 ? root_[byte] : children_[uint64_t{node} << 8 | byte];
    if (child == 0) {
      child = static_cast<uint32_t>(tokens_.size());
      tokens_.push_back(kNone);
    }
    node = child;
  }
  if (tokens_[node] == kNone) tokens_[node] = token;
}

template <class Accepts>
std::optional<TokenFinder::Match> TokenFinder::find(std::string_view text, size_t from, Accepts accepts) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    uint32_t node = root_[static_cast<uint8_t>(text[begin])];
    std::optional<Match> longest;
    for (size_t end = begin + 1; node != 0; ++end) {
      if (tokens_[node] != kNone && accepts(Match{begin, end, tokens_[node]})) longest = Match{begin, end, tokens_[node]};
      if (end == text.size()) break;
      const auto child = children_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[end]));
      node = child == children_.end() ? 0 : child->second;
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& contents) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!contents[i].empty()) finders_[tokens_[i].normalized].add(contents[i], i);
    by_id_.emplace(tokens_[i].id, i);
    by_content_.emplace(tokens_[i].content, i);
  }
}

const AddedToken* AddedTokens::by_id(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::by_content(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

bool SpecialMatching::allows(size_t begin, size_t end) const {
  const auto next = std::ranges::upper_bound(plain, offset + begin, {}, &ByteRange::end);
  return next == plain.end() || next->begin >= offset + end;
}

SpecialMatching SpecialMatching::inside(size_t begin, size_t end, bool same) const {
  if (same) return {allowed, plain, offset + begin};
  return {allowed && allows(begin, end)};
}

void AddedTokens::split(std::string_view text, bool normalized, const SpecialMatching& special, std::vector<Piece>& pieces) const {
  const TokenFinder& finder = finders_[normalized];
  const auto accepts = [&](const TokenFinder::Match& match) {
    return special.plain.empty() || !tokens_[match.token].special || special.allows(match.begin, match.end);
  };
  size_t covered = 0;
  for (size_t from = 0; const auto match = finder.empty() ? std::nullopt : finder.find(text, from, accepts);) {
    const AddedToken& token = tokens_[match->token];
    from = match->end;
    if (token.special && !special.allowed) continue;
    if (token.single_word &&
        (ends_with_word_character(text.substr(0, match->begin)) || starts_with_word_character(text.substr(match->end))))
      continue;
    size_t begin = match->begin, end = match->end;
    if (token.lstrip) begin = std::max(covered, begin - trailing_white_space(text.substr(0, begin)));
    if (token.rstrip) end += leading_white_space(text.substr(end));
    if (covered < begin) pieces.push_back({nullptr, covered, begin});
    pieces.push_back({&token, begin, end});
    covered = end;
  }
  if (covered < text.size()) pieces.push_back({nullptr, covered, text.size()});
}

}  // namespace lamina::text
