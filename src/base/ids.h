#pragma once
// Strong integer types: an integer that is an index into something has a type.

#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

#include "base/check.h"

namespace lamina {

template <class Tag, class Rep = int32_t>
struct Id {
  Rep value = 0;
  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

/// Index of a decoder layer in the whole model, never in a pipeline stage.
using LayerId = Id<struct LayerIdTag>;
/// Index of a KV page; page 0 is the dummy that padded rows write to.
using PageId = Id<struct PageIdTag>;
/// Index of one token's place in the KV pool: page * page_size + offset.
using SlotId = Id<struct SlotIdTag, int64_t>;
/// Rank within a named group.
using Rank = Id<struct RankTag>;
/// One request of the engine's life, never reused.
using RequestId = Id<struct RequestIdTag, int64_t>;

/// Narrowing that checks: the value must survive the round trip.
template <class To, class From>
constexpr To checked_cast(From value) {
  static_assert(std::is_arithmetic_v<To> && std::is_arithmetic_v<From>);
  const To narrowed = static_cast<To>(value);
  LAMINA_CHECK(static_cast<From>(narrowed) == value && ((narrowed < To{}) == (value < From{})), "narrowing lost the value");
  return narrowed;
}

}  // namespace lamina

template <class Tag, class Rep>
struct std::hash<lamina::Id<Tag, Rep>> {
  size_t operator()(lamina::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>()(id.value); }
};
