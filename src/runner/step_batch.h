#pragma once
// StepPlan -> ForwardBatch of one rank: the rows of its attention-DP rank, and of all of them where stages work on full rows.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batch/forward_batch.h"
#include "parallel/topology.h"
#include "scheduler/step.h"

namespace lamina {

/// Which rows of an entry need logits.
LogitsRows wanted_logits(const StepEntry& entry);

/// Whether the rows of each attention-DP rank are padded to those of the longest. `dp_padding`: auto | padded | ragged; auto leaves a step
/// with a prompt (`prefill`: an entry of several tokens) ragged and pads another one where that at most doubles its rows.
bool pads_rows(std::string_view dp_padding, std::span<const int64_t> dp_rows, bool prefill);

/// Logits rows of an entry among those that the head of this rank multiplies.
struct SelectedRows {
  size_t entry = 0;  // of the plan
  int64_t first = 0;
  int64_t count = 0;
};

/// The batch of one rank, kept from step to step so that its memory is used again.
class StepBatch {
 public:
  /// `pages`: of one pool.
  StepBatch(const Topology& topology, int rank, std::string_view dp_padding, int page_size, int32_t pages);

  void build(const StepPlan& plan);

  const ForwardBatch& batch() const { return batch_; }
  /// Of the sequences of batch(), in order: the entry of each in the plan.
  std::span<const size_t> entries() const { return entries_; }
  /// Logits rows in the head's order: of all attention-DP ranks one after the other, or of this rank's alone when each has its own head.
  std::span<const SelectedRows> selected() const { return selected_; }
  int64_t selected_rows() const { return selected_.empty() ? 0 : selected_.back().first + selected_.back().count; }

 private:
  void count_rows(const StepPlan& plan);
  void append(const StepPlan& plan, size_t entry);
  void append_sequence(const StepPlan& plan, const StepEntry& entry);

  const int dp_ranks_;
  const bool own_head_;
  const std::string dp_padding_;
  ForwardBatch batch_;
  std::vector<size_t> entries_;
  std::vector<SelectedRows> selected_;
};

}  // namespace lamina
