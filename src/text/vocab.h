#pragma once
// Tokens by id and by text, in flat arrays: real vocabularies have 256k entries and are looked up for every word.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/result.h"

namespace lamina::text {

/// Ids are below this, so that no file makes us allocate by a lying id.
inline constexpr int64_t kMaxTokenIds = int64_t{16} << 20;

class Vocab {
 public:
  /// Room for about `tokens` tokens.
  explicit Vocab(size_t tokens);

  /// Adds one token; `text` may be empty. False, changing nothing, when the text or the id is taken. Requires 0 <= id < kMaxTokenIds.
  bool add(std::string_view text, TokenId id);

  std::optional<TokenId> find(std::string_view text) const;
  std::optional<std::string_view> text(TokenId id) const;
  /// Highest id + 1.
  int end_id() const { return static_cast<int>(spans_.size()); }

 private:
  struct Span {
    uint32_t offset = 0;
    uint32_t size = kNoToken;
  };
  struct Slot {
    uint32_t hash = 0;
    TokenId id = -1;
  };
  static constexpr uint32_t kNoToken = UINT32_MAX;
  std::string_view view(Span span) const { return {bytes_.data() + span.offset, span.size}; }
  /// The slot that holds `text`, or the free one where it belongs.
  size_t locate(std::string_view text, uint32_t hash) const;
  void grow();

  std::string bytes_;
  std::vector<Span> spans_;  // by id
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t used_ = 0;
};

/// 64 well mixed bits of `bytes`.
uint64_t hash_bytes(std::string_view bytes);

}  // namespace lamina::text
