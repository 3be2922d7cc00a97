#include "layers/logits.h"

#include <cstring>
#include <numeric>

namespace lamina {

void LogitsProcessor::select(ForwardContext& ctx, ConstF32View hidden, ModelOutput& out) const {
  const std::vector<int64_t>& counts = ctx.batch.dp_selected;
  const auto own = counts.begin() + ctx.batch.dp_rank;
  const int64_t begin = gathers() ? std::accumulate(counts.begin(), own, int64_t{0}) : 0;
  int64_t end = begin;
  for (const BatchSequence& sequence : ctx.batch.sequences) {
    out.rows.push_back({end, sequence.selected_rows()});
    end += out.rows.back().count;
  }
  LAMINA_CHECK(!gathers() || (std::ssize(counts) == attn_dp_->size && end - begin == *own), "dp_selected does not count the rows");
  const int64_t total = gathers() ? std::accumulate(own, counts.end(), begin) : end;
  const MutableActivation selected = ctx.memory.step().activation(head_.input_dtype(), total, hidden.cols);
  for (size_t s = 0; s < ctx.batch.sequences.size(); ++s) {
    const BatchSequence& sequence = ctx.batch.sequences[s];
    const auto [first, count] = out.rows[s];
    const ConstF32View rows = hidden.slice(sequence.row_begin + sequence.row_count - count, count);
    const MutableActivation target = selected.slice(first, count);
    if (selected.dtype == DType::kBF16) {
      ctx.compute.kernels->round_to_bf16(rows, target);
    } else {
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(static_cast<float*>(target.data) + r * target.stride, rows.row(r), static_cast<size_t>(rows.cols) * sizeof(float));
      }
    }
  }
  if (gathers() && total > 0) attn_dp_->communicator->all_gather_rows(selected, counts);
  out.hidden = selected.view();
}

F32View LogitsProcessor::compute(ForwardContext& ctx, const ModelOutput& out, int64_t first, int64_t count, int candidates) const {
  ctx.memory.next_stage();
  return head_.forward(ctx, out.hidden.slice(first, count), candidates);
}

}  // namespace lamina
