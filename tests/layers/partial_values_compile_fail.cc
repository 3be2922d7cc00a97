// expect: Partial::values_.* is private
#include <utility>

#include "layers/partial.h"

lamina::F32View peek(lamina::Partial partial) {
#ifdef CONTROL
  return lamina::PartialAccess::reduce(std::move(partial));
#else
  return partial.values_;
#endif
}
