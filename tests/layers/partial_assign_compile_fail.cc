// expect: use of deleted function .*Partial::operator=
#include <utility>

#include "layers/partial.h"

void replace(lamina::Partial& old, lamina::Partial next) {
#ifdef CONTROL
  (void)old;
  (void)lamina::PartialAccess::reduce(std::move(next));
#else
  old = std::move(next);
#endif
}
