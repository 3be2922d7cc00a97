#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "text/byte_level.h"

namespace lamina::text {
namespace {

constexpr size_t kShortWord = 128;  // symbols up to which scanning all ranks beats a heap

int character_size(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

std::string fallback_token(int byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return cat("<0x", kDigits[byte >> 4], kDigits[byte & 15], '>');
}

// Unknown symbols wait here, because the library emits them late: before the next known symbol, but after fallback bytes.
class UnknownRun {
 public:
  UnknownRun(const BpeOptions& options, std::optional<TokenId> id, std::vector<TokenId>& ids) : options_(options), id_(id), ids_(ids) {}

  Status add() {
    if (options_.unk_token.empty()) return {};
    if (!id_) return error("model.unk_token \"", options_.unk_token, "\" is needed by the text but is not in model.vocab");
    if (waiting_ && !options_.fuse_unk) ids_.push_back(*id_);
    waiting_ = true;
    return {};
  }
  void flush() {
    if (waiting_) ids_.push_back(*id_);
    waiting_ = false;
  }

 private:
  const BpeOptions& options_;
  std::optional<TokenId> id_;
  std::vector<TokenId>& ids_;
  bool waiting_ = false;
};

}  // namespace

Bpe::Bpe(Vocab vocab, MergeTable merges, BpeOptions options, std::vector<TokenId> reserved)
    : vocab_(std::move(vocab)),
      merges_(std::move(merges)),
      options_(std::move(options)),
      reserved_(std::move(reserved)),
      unk_id_(vocab_.find(options_.unk_token)),
      cut_at_marks_(vocab_.find(kSpaceMark).has_value() && !options_.byte_level && !options_.ignore_merges &&
                    options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty()),
      bytes_are_symbols_(options_.byte_level && !options_.byte_fallback && options_.continuing_subword_prefix.empty() &&
                         options_.end_of_word_suffix.empty()) {
  for (int b = 0; b < 256; ++b) {
    std::string spelled;
    const char byte = static_cast<char>(b);
    append_spelled_bytes(spelled, {&byte, 1});
    byte_symbols_[b] = find(spelled).value_or(-1);
    fallback_symbols_[b] = vocab_.find(fallback_token(b)).value_or(-1);
  }
}

std::optional<TokenId> Bpe::find(std::string_view text) const {
  const std::optional<TokenId> id = vocab_.find(text);
  if (id && std::ranges::binary_search(reserved_, *id)) return std::nullopt;
  return id;
}

// Without a pre-tokenizer a whole text is one word. Cut where no merge can reach over the begin of a space mark, its parts are short and
// often known to the cache.
Status Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const {
  size_t begin = 0;
  for (size_t mark = 0; cut_at_marks_ && (mark = word.find(kSpaceMark, mark)) != std::string_view::npos; mark += kSpaceMark.size()) {
    if (mark == begin || options_.joins_mark[static_cast<uint8_t>(word[mark - 1])]) continue;
    LAMINA_TRY(encode_part(word.substr(begin, mark - begin), scratch, out));
    begin = mark;
  }
  return encode_part(word.substr(begin), scratch, out);
}

Status Bpe::encode_part(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const {
  const bool cached = WordCache::fits(word);
  const uint64_t hash = cached ? hash_bytes(word) : 0;
  if (cached) {
    const std::span<const TokenId> known = scratch.cache.find(word, hash);
    if (!known.empty()) {
      out.insert(out.end(), known.begin(), known.end());
      return {};
    }
  }
  LAMINA_TRY(split(word, scratch));
  if (scratch.ids.size() > kShortWord) {
    join_long(scratch);
  } else if (scratch.ids.size() > 1) {
    join_short(scratch);
  }
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  if (cached) scratch.cache.store(word, hash, scratch.ids);
  return {};
}

Status Bpe::split(std::string_view word, BpeScratch& scratch) const {
  scratch.ids.clear();
  const bool spell = options_.byte_level && (options_.ignore_merges || !bytes_are_symbols_);
  std::string_view spelled = word;
  if (spell) {
    scratch.spelled.clear();
    append_spelled_bytes(scratch.spelled, word);
    spelled = scratch.spelled;
  }
  if (options_.ignore_merges) {
    if (const std::optional<TokenId> whole = find(spelled)) {
      scratch.ids.push_back(*whole);
      return {};
    }
  }
  if (!bytes_are_symbols_) return split_characters(spelled, scratch);
  UnknownRun unknown(options_, unk_id_, scratch.ids);
  for (const char byte : word) {
    const TokenId id = byte_symbols_[static_cast<uint8_t>(byte)];
    if (id < 0) {
      LAMINA_TRY(unknown.add());
    } else {
      unknown.flush();
      scratch.ids.push_back(id);
    }
  }
  unknown.flush();
  return {};
}

Status Bpe::split_characters(std::string_view word, BpeScratch& scratch) const {
  UnknownRun unknown(options_, unk_id_, scratch.ids);
  for (size_t pos = 0; pos < word.size();) {
    const size_t size = character_size(word[pos]);
    std::string_view unit = word.substr(pos, size);
    const bool prefix = pos > 0 && !options_.continuing_subword_prefix.empty();
    const bool suffix = pos + size == word.size() && !options_.end_of_word_suffix.empty();
    if (prefix || suffix) {
      scratch.unit.clear();
      if (prefix) scratch.unit += options_.continuing_subword_prefix;
      scratch.unit += unit;
      if (suffix) scratch.unit += options_.end_of_word_suffix;
      unit = scratch.unit;
    }
    pos += size;
    if (const std::optional<TokenId> id = find(unit)) {
      unknown.flush();
      scratch.ids.push_back(*id);
    } else if (!options_.byte_fallback || !spell_by_bytes(unit, scratch.ids)) {
      LAMINA_TRY(unknown.add());
    }
  }
  unknown.flush();
  return {};
}

bool Bpe::spell_by_bytes(std::string_view unit, std::vector<TokenId>& ids) const {
  const auto symbol = [&](char byte) { return fallback_symbols_[static_cast<uint8_t>(byte)]; };
  if (std::ranges::any_of(unit, [&](char byte) { return symbol(byte) < 0; })) return false;
  for (const char byte : unit) ids.push_back(symbol(byte));
  return true;
}

void Bpe::join_short(BpeScratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  std::vector<Merge>& joins = scratch.joins;
  joins.resize(ids.size() - 1);
  for (size_t i = 0; i < joins.size(); ++i) joins[i] = merges_.find(ids[i], ids[i + 1]);
  while (!joins.empty()) {
    const auto best = std::ranges::min_element(joins, {}, &Merge::rank);  // the first among equals
    if (best->rank == kNoMerge.rank) return;
    const size_t i = best - joins.begin();
    ids[i] = best->id;
    ids.erase(ids.begin() + i + 1);
    joins.erase(best);
    if (i < joins.size()) joins[i] = merges_.find(ids[i], ids[i + 1]);
    if (i > 0) joins[i - 1] = merges_.find(ids[i - 1], ids[i]);
  }
}

// The same order by a heap of (rank, position): an entry counts only while its position still has that rank.
void Bpe::join_long(BpeScratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  const auto n = static_cast<uint32_t>(ids.size());
  scratch.joins.assign(n, kNoMerge);
  scratch.next.resize(n);
  scratch.previous.resize(n);
  scratch.heap.clear();
  const auto entry = [&](uint32_t i) { return uint64_t{scratch.joins[i].rank} << 32 | i; };
  for (uint32_t i = 0; i < n; ++i) {
    scratch.next[i] = i + 1;
    scratch.previous[i] = i - 1;
    if (i + 1 < n) scratch.joins[i] = merges_.find(ids[i], ids[i + 1]);
    if (scratch.joins[i].id >= 0) scratch.heap.push_back(entry(i));
  }
  std::ranges::make_heap(scratch.heap, std::greater<>());
  const auto look_again = [&](uint32_t i) {
    const uint32_t right = scratch.next[i];
    scratch.joins[i] = right < n ? merges_.find(ids[i], ids[right]) : kNoMerge;
    if (scratch.joins[i].id < 0) return;
    scratch.heap.push_back(entry(i));
    std::ranges::push_heap(scratch.heap, std::greater<>());
  };
  while (!scratch.heap.empty()) {
    std::ranges::pop_heap(scratch.heap, std::greater<>());
    const uint64_t top = scratch.heap.back();
    scratch.heap.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (scratch.joins[i].id < 0 || entry(i) != top) continue;
    const uint32_t right = scratch.next[i];
    ids[i] = scratch.joins[i].id;
    ids[right] = -1;
    scratch.joins[right] = kNoMerge;
    scratch.next[i] = scratch.next[right];
    if (scratch.next[i] < n) scratch.previous[scratch.next[i]] = i;
    look_again(i);
    if (i > 0) look_again(scratch.previous[i]);
  }
  std::erase(ids, -1);
}

}  // namespace lamina::text
