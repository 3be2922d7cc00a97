// expect: use of deleted function .*Partial\(const
#include <utility>

#include "layers/partial.h"

lamina::F32View twice(lamina::Partial partial) {
#ifdef CONTROL
  lamina::Partial other = std::move(partial);
#else
  lamina::Partial other = partial;
#endif
  return lamina::PartialAccess::reduce(std::move(other));
}
