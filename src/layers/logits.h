#pragma once
// The output side: rows that need logits are chosen before the head's matmul.

#include "layers/context.h"
#include "layers/embedding.h"

namespace lamina {

class LogitsProcessor {
 public:
  /// A head cut over more ranks than share this one's rows (attention data parallelism without --enable-dp-lm-head) multiplies the rows
  /// of them all.
  LogitsProcessor(BuildContext& build, const ParallelLMHead& head)
      : head_(head), attn_dp_(head.group().name == "attn_tp" ? nullptr : &build.group("attn_dp")) {}

  /// Rows of `hidden` [local rows, width] (after the final norm) that the batch's sequences ask for, in step memory, as the head
  /// multiplies them; fills out.hidden and out.rows. Where the head multiplies the rows of all attention-DP ranks, out.hidden holds those
  /// of batch.dp_selected, one rank's after the other's; out.rows are this rank's, by their place in the whole. Collective over attn_dp.
  void select(ForwardContext& ctx, ConstF32View hidden, ModelOutput& out) const;
  /// Logits [count, vocab] of selected rows [first, first + count) in stage memory, valid until the next call. Callers go through the rows
  /// in chunks of kLogitsChunk, which bounds the memory; bits do not depend on the chunks. Collective and `candidates` as CausalLM::logits.
  F32View compute(ForwardContext& ctx, const ModelOutput& out, int64_t first, int64_t count, int candidates) const;

  static constexpr int64_t kLogitsChunk = 32;

 private:
  bool gathers() const { return attn_dp_ != nullptr && attn_dp_->size > 1; }

  const ParallelLMHead& head_;
  const ParallelGroup* attn_dp_;
};

}  // namespace lamina
