#pragma once
// Inside of Tokenizer, shared with Detokenizer.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace lamina {

/// What one encode() call works with.
struct EncodeScratch {
  text::MatchScratch match;
  text::BpeScratch bpe;
  text::WordList words;
  std::string normalized;
  std::vector<text::AddedTokens::Piece> pieces, inner_pieces;
};

struct Tokenizer::Tables {
  text::Normalizer normalizer;
  text::PreTokenizer pre_tokenizer;
  text::Bpe model;
  text::AddedTokens added;
  std::vector<std::string> added_texts;  // of added.tokens(): as they stand in a normalized text, which is also what they decode to
  text::PostProcessor post_processor;
  text::Decoder decoder;
  int vocab_size = 0;
  std::optional<std::string> bos_token, eos_token;

  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<EncodeScratch>> idle;  // guarded by mutex; at most one for each thread that ever encoded at once

  Tables(text::Normalizer n, text::PreTokenizer p, text::Bpe m, text::AddedTokens a)
      : normalizer(std::move(n)), pre_tokenizer(std::move(p)), model(std::move(m)), added(std::move(a)) {}

  Status encode(std::string_view text, const text::SpecialMatching& special, EncodeScratch& scratch, std::vector<TokenId>& ids) const;
  /// What the decoder is given for `id`.
  std::optional<std::string_view> decoded_token(TokenId id, bool skip_special) const;

 private:
  Status encode_plain(std::string_view text, bool at_start, EncodeScratch& scratch, std::vector<TokenId>& ids) const;
};

}  // namespace lamina
