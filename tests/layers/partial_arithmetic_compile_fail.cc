// expect: no match for .operator\+
#include <utility>

#include "layers/partial.h"

lamina::F32View add(lamina::Partial a, lamina::Partial b) {
#ifdef CONTROL
  (void)lamina::PartialAccess::reduce(std::move(a));
  return lamina::PartialAccess::reduce(std::move(b));
#else
  return a + b;
#endif
}
