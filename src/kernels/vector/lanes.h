#pragma once
// What the ISA paths share is written once, over a type V of vector operations (vector.h of each path defines one).
// V lives in an unnamed namespace and every function here is a template on it, so that each ISA's copy has internal linkage: the
// linker cannot merge code compiled for one CPU into code that runs on another. For the same reason these headers call no inline
// function of the library or of std.
//
// V: kWidth lanes; F a vector of floats; I a vector of 32-bit words (a word holds two neighbouring bf16).

#include <cstdint>

#include "kernels/kernels.h"

namespace lamina::kernels::vec {

/// How many lanes of a vector count: all of them, or the first n.
struct Full {};
struct Tail {
  int64_t n;
};

/// Calls body(c, Full) for each whole vector of [0, n) and body(c, Tail) for the rest. Inlined by force: in a function of its own the body
/// would find what it captures, sums too, in memory.
template <class V, class Body>
[[gnu::always_inline]] inline void each_vector(int64_t n, Body&& body) {
  int64_t c = 0;
  for (; c + V::kWidth <= n; c += V::kWidth) body(c, Full{});
  if (c < n) body(c, Tail{n - c});
}

// Loads give zeros in lanes that do not count; stores leave them alone.
template <class V>
auto load(const float* p, Full) {
  return V::load(p);
}
template <class V>
auto load(const float* p, Tail t) {
  return V::load_n(p, t.n);
}
template <class V>
auto load(const uint16_t* p, Full) {
  return V::load_bf16(p);
}
template <class V>
auto load(const uint16_t* p, Tail t) {
  return V::load_bf16_n(p, t.n);
}
template <class V>
void store(float* p, typename V::F v, Full) {
  V::store(p, v);
}
template <class V>
void store(float* p, typename V::F v, Tail t) {
  V::store_n(p, v, t.n);
}
template <class V>
void store(uint16_t* p, typename V::F v, Full) {
  V::store_bf16(p, v);
}
template <class V>
void store(uint16_t* p, typename V::F v, Tail t) {
  V::store_bf16_n(p, v, t.n);
}

template <class V, class T>
T least(T a, T b) {
  return b < a ? b : a;
}
template <class V, class T>
T most(T a, T b) {
  return a < b ? b : a;
}

}  // namespace lamina::kernels::vec
