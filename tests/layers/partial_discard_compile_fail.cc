// expect: ignoring returned value of type .*Partial.*nodiscard
#include <utility>

#include "layers/partial.h"

lamina::Partial make(lamina::F32View values, const lamina::ParallelGroup& group);

void drop(lamina::F32View values, const lamina::ParallelGroup& group) {
#ifdef CONTROL
  (void)lamina::PartialAccess::reduce(make(values, group));
#else
  make(values, group);
#endif
}
