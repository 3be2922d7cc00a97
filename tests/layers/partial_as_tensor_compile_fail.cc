// expect: could not convert .*Partial
#include <utility>

#include "layers/partial.h"

lamina::F32View silu(lamina::ConstF32View x);

lamina::F32View use(lamina::Partial partial) {
#ifdef CONTROL
  return silu(lamina::PartialAccess::reduce(std::move(partial)));
#else
  return silu(std::move(partial));
#endif
}
