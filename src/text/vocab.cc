#include "text/vocab.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace lamina::text {

uint64_t hash_bytes(std::string_view bytes) {
  // Multiply-and-fold over 8-byte words.
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  const auto mix = [](uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t hash = bytes.size() * kMultiplier;
  size_t pos = 0;
  for (; pos + 8 <= bytes.size(); pos += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + pos, 8);
    hash = mix(hash ^ word, kMultiplier);
  }
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + pos, bytes.size() - pos);
  return mix(hash ^ word ^ 0xD6E8FEB86659FD93, kMultiplier);
}

Vocab::Vocab(size_t tokens) : slots_(std::bit_ceil(2 * tokens + 16)) {}

size_t Vocab::locate(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id < 0 || (slot.hash == hash && view(spans_[slot.id]) == text)) return at;
  }
}

bool Vocab::add(std::string_view text, TokenId id) {
  LAMINA_CHECK(id >= 0 && id < kMaxTokenIds && bytes_.size() + text.size() < kNoToken, "vocabulary out of range");
  if (2 * (used_ + 1) > slots_.size()) grow();
  const auto hash = static_cast<uint32_t>(hash_bytes(text));
  Slot& slot = slots_[locate(text, hash)];
  const auto index = static_cast<size_t>(id);
  if (slot.id >= 0 || (index < spans_.size() && spans_[index].size != kNoToken)) return false;
  if (index >= spans_.size()) spans_.resize(index + 1);
  spans_[index] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size())};
  bytes_ += text;
  slot = {hash, id};
  ++used_;
  return true;
}

void Vocab::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old)
    if (slot.id >= 0) slots_[locate(view(spans_[slot.id]), slot.hash)] = slot;
}

std::optional<TokenId> Vocab::find(std::string_view text) const {
  const Slot& slot = slots_[locate(text, static_cast<uint32_t>(hash_bytes(text)))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

std::optional<std::string_view> Vocab::text(TokenId id) const {
  if (id < 0 || id >= end_id() || spans_[id].size == kNoToken) return std::nullopt;
  return view(spans_[id]);
}

}  // namespace lamina::text
