#pragma once
// Text to token ids and back, by the tokenizer.json of a checkpoint: the ids and texts of Hugging Face's `tokenizers`.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/result.h"

namespace lamina {

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0, end = 0;
};

struct EncodeOptions {
  /// Put the control tokens of the file's post_processor (BOS, EOS) around the text. Off for chat prompts: their template writes them.
  bool add_special_tokens = true;
  /// Special tokens spelled in the text become those tokens. Off for what a user wrote: then only non-special added tokens do.
  bool match_special = true;
  /// Ascending ranges of what a user wrote: special tokens match only where they touch none of these. A special token that is searched in
  /// normalized text does not match at all between its neighbours where normalization changes text that holds such bytes.
  std::span<const ByteRange> plain = {};
};

/// A loaded tokenizer. A cheap value: copies share the tables. Const members may be called by several threads at once.
///
/// Model BPE only; WordPiece, Unigram and WordLevel are refused by name, and so is every component type that is not supported. "truncation"
/// and "padding" are ignored: an engine never cuts a prompt silently.
class Tokenizer {
 public:
  using EncodeOptions = lamina::EncodeOptions;

  /// Reads `folder`/tokenizer.json and, when present, `folder`/tokenizer_config.json. Errors name file and key.
  static Result<Tokenizer> load(const std::string& folder);
  /// From the text of a tokenizer.json; `what` names it in errors.
  static Result<Tokenizer> parse(std::string_view tokenizer_json, std::string_view what);

  /// Fails for invalid UTF-8, for text of 2 GiB or more, where a regular expression exceeds its limits, and where an unknown symbol needs
  /// an unk_token that the vocabulary lacks. Never a silent split.
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;
  /// Valid UTF-8. Ids without a token decode to nothing, and with `skip_special` so do special tokens.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  /// Highest id + 1, added tokens included; ids in between may have no token.
  int vocab_size() const;
  std::optional<TokenId> id_of(std::string_view token) const;
  /// As written in the file (a byte-level token is spelled in its alphabet). Views this tokenizer's tables.
  std::optional<std::string_view> token(TokenId id) const;
  bool is_special(TokenId id) const;
  /// What `id` adds inside a text: perhaps part of a character, with the space that its spelling holds. Empty for an id without a token.
  std::string token_bytes(TokenId id) const;

  /// bos_token and eos_token of tokenizer_config.json: none when the file or the key is absent.
  const std::optional<std::string>& bos_token() const;
  const std::optional<std::string>& eos_token() const;

 private:
  friend class Detokenizer;
  struct Tables;
  static Result<std::shared_ptr<Tables>> parse_tables(std::string_view tokenizer_json, std::string_view what);
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}

  std::shared_ptr<const Tables> tables_;  // shared by the copies and by the detokenizers made of them
};

}  // namespace lamina
