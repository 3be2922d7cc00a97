#include "kernels/vector/attention.h"

#include "kernels/avx512/vector.h"
#include "kernels/tables.h"

namespace lamina::kernels {

void avx512_attention_item(const AttentionArgs& args, const AttentionItem& item, void* scratch) {
  vec::attention_item<Avx512>(args, item, scratch);
}

}  // namespace lamina::kernels
