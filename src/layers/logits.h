#pragma once
// The output side: rows that need logits are chosen before the head's matmul.

#include "layers/context.h"
#include "layers/embedding.h"

namespace lamina {

class LogitsProcessor {
 public:
  explicit LogitsProcessor(const ParallelLMHead& head) : head_(head) {}

  /// Rows of `hidden` [rows, width] (after the final norm) that the batch's sequences ask for, in step memory, as the head multiplies
  /// them; fills out.hidden and out.rows.
  void select(ForwardContext& ctx, ConstF32View hidden, ModelOutput& out) const;
  /// Logits [count, vocab] of selected rows [first, first + count) in stage memory, valid until the next call. Callers go through the rows
  /// in chunks of kLogitsChunk, which bounds the memory; bits do not depend on the chunks.
  F32View compute(ForwardContext& ctx, const ModelOutput& out, int64_t first, int64_t count) const;

  static constexpr int64_t kLogitsChunk = 32;

 private:
  const ParallelLMHead& head_;
};

}  // namespace lamina
