#pragma once
// Added tokens: strings that become one token wherever they stand in a text, before the model sees the rest.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/types.h"
#include "base/result.h"
#include "text/json_node.h"
#include "text/tokenizer.h"

namespace lamina::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  // only where no word character stands beside it
  bool lstrip = false;       // takes the white space in front with it
  bool rstrip = false;       // and behind
  bool normalized = false;   // is searched in the normalized text, by its own normalized content
  bool special = false;
};

/// Reads one element of "added_tokens".
Result<AddedToken> parse_added_token(const JsonNode& node);

/// Finds the longest of several strings at the leftmost place where any begins.
class TokenFinder {
 public:
  struct Match {
    size_t begin = 0, end = 0;
    size_t token = 0;
  };
  TokenFinder() : root_(256), tokens_(1, kNone) {}

  /// `content` is not empty; a string added twice keeps its first token.
  void add(std::string_view content, size_t token);
  bool empty() const { return tokens_.size() == 1; }
  /// Matches for which `accepts` is false are none.
  template <class Accepts>
  std::optional<Match> find(std::string_view text, size_t from, Accepts accepts) const;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  // A trie. Node 0 is the root, which has no parent: as a child it means "none".
  std::vector<uint32_t> root_;                       // children of the root, by byte
  std::unordered_map<uint64_t, uint32_t> children_;  // of the other nodes, by node << 8 | byte
  std::vector<size_t> tokens_;                       // by node: the token that ends there
};

/// Where special tokens match.
struct SpecialMatching {
  bool allowed = true;
  std::span<const ByteRange> plain = {};  // ascending; no special token touches them
  size_t offset = 0;                      // of the text that is searched, inside the one that `plain` counts in

  bool allows(size_t begin, size_t end) const;
  /// For the bytes [begin, end) of the text, normalized; `same`: normalization left them as they are, so that offsets hold.
  SpecialMatching inside(size_t begin, size_t end, bool same) const;
};

/// Cuts text at the tokens that a finder finds, by the flags of each token.
class AddedTokens {
 public:
  /// `contents[i]` is what `tokens[i]` looks like in the text (normalized where its flag says so).
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<std::string>& contents);
  AddedTokens(AddedTokens&&) = default;  // no copies: the indices view the contents
  AddedTokens& operator=(AddedTokens&&) = default;

  /// One piece of a text: a token, or plain text when `token` is null.
  struct Piece {
    const AddedToken* token = nullptr;
    size_t begin = 0, end = 0;
  };
  /// The pieces of `text` (valid UTF-8) by the tokens whose flag `normalized` is as given. Where `special` does not allow them, special
  /// tokens are plain text.
  void split(std::string_view text, bool normalized, const SpecialMatching& special, std::vector<Piece>& pieces) const;
  bool any(bool normalized) const { return !finders_[normalized].empty(); }

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* by_id(TokenId id) const;
  const AddedToken* by_content(std::string_view content) const;

 private:
  std::vector<AddedToken> tokens_;
  TokenFinder finders_[2];  // by normalized
  std::unordered_map<TokenId, size_t> by_id_;
  std::unordered_map<std::string_view, size_t> by_content_;
};

}  // namespace lamina::text
