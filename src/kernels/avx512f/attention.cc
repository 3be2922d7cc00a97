#include "kernels/vector/attention.h"

#include "kernels/avx512f/vector.h"
#include "kernels/tables.h"

namespace lamina::kernels {

void avx512f_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  vec::attention_item<Avx512F>(args, item, scratch);
}

}  // namespace lamina::kernels
