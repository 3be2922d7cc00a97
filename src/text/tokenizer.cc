#include "text/tokenizer.h"

#include "base/strings.h"
#include "base/utf8.h"
#include "text/tokenizer_tables.h"

namespace lamina {
namespace {

constexpr size_t kMaxTextBytes = (size_t{1} << 31) - 1;
constexpr size_t kKeepTextBytes = size_t{1} << 20;  // a scratch that has grown for more is freed

// A scratch taken from the idle ones for one call, so that word caches live on while no two calls share one.
class BorrowedScratch {
 public:
  BorrowedScratch(std::mutex& mutex, std::vector<std::unique_ptr<EncodeScratch>>& idle, size_t text_bytes)
      : mutex_(mutex), idle_(idle), keep_(text_bytes <= kKeepTextBytes) {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return;
    scratch_ = std::move(idle_.back());
    idle_.pop_back();
  }
  BorrowedScratch(const BorrowedScratch&) = delete;
  BorrowedScratch& operator=(const BorrowedScratch&) = delete;
  ~BorrowedScratch() {
    const std::lock_guard lock(mutex_);
    if (keep_ && scratch_ != nullptr) idle_.push_back(std::move(scratch_));
  }
  EncodeScratch& operator*() {
    if (scratch_ == nullptr) scratch_ = std::make_unique<EncodeScratch>();
    return *scratch_;
  }

 private:
  std::mutex& mutex_;
  std::vector<std::unique_ptr<EncodeScratch>>& idle_;
  bool keep_;
  std::unique_ptr<EncodeScratch> scratch_;
};

}  // namespace

Status Tokenizer::Tables::encode(std::string_view text, const text::SpecialMatching& special, EncodeScratch& scratch,
                                 std::vector<TokenId>& ids) const {
  scratch.pieces.clear();
  added.split(text, false, special, scratch.pieces);
  for (const text::AddedTokens::Piece& piece : scratch.pieces) {
    if (piece.token != nullptr) {
      ids.push_back(piece.token->id);
      continue;
    }
    const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
    LAMINA_ASSIGN(const std::string_view normalized, normalizer.apply(part, scratch.normalized, scratch.match));
    scratch.inner_pieces.clear();
    added.split(normalized, true, special.inside(piece.begin, piece.end, normalized == part), scratch.inner_pieces);
    for (const text::AddedTokens::Piece& inner : scratch.inner_pieces) {
      if (inner.token != nullptr) {
        ids.push_back(inner.token->id);
      } else {
        const bool at_start = piece.begin == 0 && inner.begin == 0;
        LAMINA_TRY(encode_plain(normalized.substr(inner.begin, inner.end - inner.begin), at_start, scratch, ids));
      }
    }
  }
  return {};
}

Status Tokenizer::Tables::encode_plain(std::string_view text, bool at_start, EncodeScratch& scratch, std::vector<TokenId>& ids) const {
  LAMINA_TRY(pre_tokenizer.split(text, at_start, scratch.words, scratch.match));
  for (size_t i = 0; i < scratch.words.ranges.size(); ++i) LAMINA_TRY(model.encode(scratch.words.word(i), scratch.bpe, ids));
  return {};
}

std::optional<std::string_view> Tokenizer::Tables::decoded_token(TokenId id, bool skip_special) const {
  const text::AddedToken* token = added.by_id(id);
  if (token == nullptr) return model.vocab().text(id);
  if (token->special && skip_special) return std::nullopt;
  return added_texts[token - added.tokens().data()];
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) return error("the text has ", text.size(), " bytes; at most ", kMaxTextBytes, " are allowed");
  if (const size_t valid = valid_utf8_prefix(text); valid != text.size()) return error("the text is not valid UTF-8 at byte ", valid);
  const text::PostProcessor& post = tables_->post_processor;
  std::vector<TokenId> ids;
  if (options.add_special_tokens) ids = post.prefix;
  BorrowedScratch scratch(tables_->mutex, tables_->idle, text.size());
  LAMINA_TRY(tables_->encode(text, {options.match_special, options.plain}, *scratch, ids));
  if (options.add_special_tokens) ids.insert(ids.end(), post.suffix.begin(), post.suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  text::DecodeState state = tables_->decoder.start();
  for (const TokenId id : ids)
    if (const auto token = tables_->decoded_token(id, skip_special)) tables_->decoder.feed(state, *token, out);
  tables_->decoder.flush(state, out);
  return out;
}

int Tokenizer::vocab_size() const { return tables_->vocab_size; }

std::optional<TokenId> Tokenizer::id_of(std::string_view token) const {
  if (const text::AddedToken* added = tables_->added.by_content(token)) return added->id;
  return tables_->model.vocab().find(token);
}

std::optional<std::string_view> Tokenizer::token(TokenId id) const {
  if (const text::AddedToken* added = tables_->added.by_id(id)) return added->content;
  return tables_->model.vocab().text(id);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  if (tables_->added.by_id(id) != nullptr) return std::string(*tables_->decoded_token(id, false));
  const std::optional<std::string_view> token = tables_->model.vocab().text(id);
  return token ? tables_->decoder.bytes(*token) : std::string();
}

bool Tokenizer::is_special(TokenId id) const {
  const text::AddedToken* added = tables_->added.by_id(id);
  return added != nullptr && added->special;
}

const std::optional<std::string>& Tokenizer::bos_token() const { return tables_->bos_token; }
const std::optional<std::string>& Tokenizer::eos_token() const { return tables_->eos_token; }

}  // namespace lamina
