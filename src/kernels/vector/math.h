#pragma once
// Elementary functions.

#include "kernels/vector/lanes.h"

namespace lamina::kernels::vec {

/// e^x within 2 ulp (tests/kernels/rows_test.cc bounds what is made of it). Exactly 0 from -104 down, inf above 88.73, NaN stays.
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a degree 6 polynomial, minimax in relative error (3e-9), fitted for this file.
template <class V>
typename V::F exp(typename V::F x) {
  using F = typename V::F;
  x = V::min(V::set1(89.0F), x);  // the second operand is kept when it is NaN
  x = V::max(V::set1(-104.0F), x);
  const F n = V::round(V::mul(x, V::set1(1.44269504F)));
  F r = V::fnma(n, V::set1(0.693359375F), x);  // exact: 9 bits
  r = V::fnma(n, V::set1(-2.12194442e-4F), r);
  F p = V::set1(0.0013814540579915047F);
  p = V::fma(p, r, V::set1(0.00836874544620514F));
  p = V::fma(p, r, V::set1(0.04166838899254799F));
  p = V::fma(p, r, V::set1(0.1666652113199234F));
  p = V::fma(p, r, V::set1(0.4999999403953552F));
  p = V::fma(p, V::mul(r, r), r);
  return V::scale(V::add(p, V::set1(1.0F)), n);
}

/// tanh within 2e-7 absolute: 1 - 2 / (e^2x + 1).
template <class V>
typename V::F tanh(typename V::F x) {
  const typename V::F one = V::set1(1.0F);
  return V::sub(one, V::div(V::set1(2.0F), V::add(exp<V>(V::add(x, x)), one)));
}

}  // namespace lamina::kernels::vec
