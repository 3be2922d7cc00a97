#include "kernels/vector/attention.h"

#include "kernels/avx2/vector.h"
#include "kernels/tables.h"

namespace lamina::kernels {

void avx2_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  vec::attention_item<Avx2>(args, item, scratch);
}

}  // namespace lamina::kernels
