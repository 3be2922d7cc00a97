#pragma once
// The residual stream of one forward: a value with three states.
//
//   initial   holds the embedding (or what a pipeline stage handed over); nothing was read yet
//   written   complete: every contribution has been added
//   pending   one contribution waits; the next read consumes it exactly once
//
// Between ranks it is replicated (every rank of an attn_tp group holds all local rows) or scattered (each holds its share of them).

#include <optional>
#include <span>
#include <string>

#include "layers/boundary/stage.h"
#include "layers/norm.h"

namespace lamina {

/// The groups that share the rows of a step.
struct RowGroups {
  const ParallelGroup* tp = nullptr;
  const ParallelGroup* attn_tp = nullptr;
  const ParallelGroup* attn_dp = nullptr;
};

/// Where a boundary stands, for taps: "model.layers.3", "attention_boundary".
struct BoundaryName {
  std::string module;
  std::string value;
};

/// How the rows of one step lie between ranks. Row numbers are those of full rows.
class RowMap {
 public:
  /// Counts live in the step's memory. `scattered`: each rank of attn_tp holds its share of the local rows, else all.
  RowMap(ForwardContext& ctx, const RowGroups& groups, bool scattered);

  /// Rows [begin, end) of the stage: all, or those of this attention-DP rank.
  RowRange of(StageRows rows) const { return rows == StageRows::kFull ? RowRange{0, full_} : local_; }
  /// Rows of the residual that this rank holds.
  RowRange held() const { return scattered_ ? own_ : local_; }
  /// This rank's share of the local rows.
  RowRange own() const { return own_; }
  /// Shares of the ranks of `group`.
  std::span<const int64_t> counts(const ParallelGroup& group) const;

 private:
  const RowGroups& groups_;
  bool scattered_;
  int64_t full_;
  RowRange local_, own_;
  std::span<int64_t> tp_, attn_tp_;
  std::span<const int64_t> attn_dp_;
};

class ResidualStream {
 public:
  enum class State { kInitial, kWritten, kPending };
  /// Step memory that a read takes.
  static constexpr size_t kBytesPerRead = 192;

  /// Starts from the embedding: `full` [full rows, hidden], complete, in step memory that the stream goes on to use.
  ResidualStream(ForwardContext& ctx, const RowGroups& groups, F32View full);
  /// Starts from what the pipeline stage before hands over: receives it.
  ResidualStream(ForwardContext& ctx, const RowGroups& groups, int64_t width, const ParallelGroup& pp, const ParallelGroup& owed_over);
  ResidualStream(const ResidualStream&) = delete;
  ResidualStream& operator=(const ResidualStream&) = delete;
  ~ResidualStream();

  State state() const { return state_; }
  const RowGroups& groups() const { return groups_; }
  /// Rows that this rank holds.
  int64_t rows() const { return residual_.rows; }

  /// Consumes the pending contribution, if any, as `plan` says; then the norm of the residual, all rows that the reader wants.
  Activation read(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm, const BoundaryName& name);
  /// The next contribution. A pending one that nobody has read is a CHECK.
  void record(Partial contribution);

  /// Sends the residual and the pending contribution, unreduced, to the next pipeline stage; the stream is then empty.
  void hand_over(const ParallelGroup& pp);

  /// For layers that own their residual (`stage_boundaries` false): the complete stream, to be read and added to in place. Replicated only.
  F32View owned(ForwardContext& ctx);

  /// The next read, or owned(), also copies the complete residual of all local rows to `out` [local rows, hidden] (hidden-state capture).
  void capture_next(F32View out) { capture_ = out; }

 private:
  Activation read_in_steps(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm, F32View contribution);
  Activation read_fused(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm, F32View contribution);
  /// Rows [rows.begin, rows.end) of a view whose first row is full row `first`.
  static F32View part(F32View view, int64_t first, RowRange rows) { return view.slice(rows.begin - first, rows.count); }
  /// Every contribution has been added: serves the capture.
  void complete(ForwardContext& ctx);

  RowGroups groups_;
  RowMap map_;
  F32View residual_;  // [held rows, hidden]
  State state_ = State::kInitial;
  std::optional<Partial> pending_;
  F32View capture_;
};

}  // namespace lamina
