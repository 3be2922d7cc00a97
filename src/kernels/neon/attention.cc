#include "kernels/vector/attention.h"

#include "kernels/neon/vector.h"
#include "kernels/tables.h"

namespace lamina::kernels {

void neon_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  vec::attention_item<Neon>(args, item, scratch);
}

}  // namespace lamina::kernels
