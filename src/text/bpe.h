#pragma once
// Byte-pair encoding of one word (Sennrich et al., ACL 2016), with the options of tokenizer.json's model "BPE".

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/result.h"
#include "text/merge_table.h"
#include "text/vocab.h"
#include "text/word_cache.h"

namespace lamina::text {

/// SentencePiece's space.
inline constexpr std::string_view kSpaceMark = "\u2581";

struct BpeOptions {
  std::string unk_token = {};                  // empty: what has no symbol is dropped
  std::string continuing_subword_prefix = {};  // in front of every symbol but a word's first
  std::string end_of_word_suffix = {};         // after a word's last symbol
  bool fuse_unk = false;                       // unknown symbols in a row become one
  bool byte_fallback = false;                  // a symbol that is unknown is spelled by the tokens <0x00> to <0xFF>
  bool ignore_merges = false;                  // a word that is a token is that token
  bool byte_level = false;                     // words are bytes, which the vocabulary spells by the characters of byte_level.h
  std::array<bool, 256> joins_mark = {};       // by byte: some merge joins a symbol that ends in it with one that begins with kSpaceMark
};

/// What a thread needs while encoding; reusable, not for two threads at once. The cache belongs to one Bpe.
struct BpeScratch {
  WordCache cache;
  std::vector<TokenId> ids;
  std::vector<Merge> joins;  // of each symbol with the next one
  std::vector<uint32_t> next, previous;
  std::vector<uint64_t> heap;
  std::string spelled, unit;
};

/// Immutable.
class Bpe {
 public:
  /// `reserved` (sorted) are ids that a word never becomes, whatever the vocabulary says: control tokens.
  Bpe(Vocab vocab, MergeTable merges, BpeOptions options, std::vector<TokenId> reserved);

  /// Appends the ids of `word`: not empty, below 4 GiB, valid UTF-8 unless byte_level. Fails only where an unknown symbol needs an
  /// unk_token that is no token.
  Status encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;
  const Vocab& vocab() const { return vocab_; }

 private:
  std::optional<TokenId> find(std::string_view text) const;
  Status encode_part(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;
  Status split(std::string_view word, BpeScratch& scratch) const;
  Status split_characters(std::string_view word, BpeScratch& scratch) const;
  bool spell_by_bytes(std::string_view unit, std::vector<TokenId>& ids) const;
  void join_short(BpeScratch& scratch) const;
  void join_long(BpeScratch& scratch) const;

  Vocab vocab_;
  MergeTable merges_;
  BpeOptions options_;
  std::vector<TokenId> reserved_;
  std::optional<TokenId> unk_id_;
  bool cut_at_marks_;                          // words may be encoded in parts, each from a kSpaceMark to the next
  bool bytes_are_symbols_;                     // byte_level and nothing that needs the spelled characters
  std::array<TokenId, 256> byte_symbols_;      // by byte, of its byte-level character; -1: none
  std::array<TokenId, 256> fallback_symbols_;  // by byte, of the token <0xNN>; -1: none
};

}  // namespace lamina::text
