#pragma once
// The residual stream of one forward: a value with three states.
//
//   initial   holds the embedding (or what a pipeline stage handed over); nothing was read yet
//   written   complete: every contribution has been added
//   pending   one contribution waits; the next read consumes it exactly once

#include <optional>

#include "layers/boundary/stage.h"
#include "layers/norm.h"

namespace lamina {

class ResidualStream {
 public:
  enum class State { kInitial, kWritten, kPending };

  /// `residual` [rows, hidden] in step memory already holds the embedding.
  explicit ResidualStream(F32View residual) : residual_(residual) {}
  ResidualStream(const ResidualStream&) = delete;
  ResidualStream& operator=(const ResidualStream&) = delete;
  ~ResidualStream();

  State state() const { return state_; }
  int64_t rows() const { return residual_.rows; }

  /// Consumes the pending contribution, if any, as `plan` says; then the norm of the residual.
  Activation read(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm);
  /// The next contribution. A pending one that nobody has read is a CHECK.
  void record(Partial contribution);

  /// For layers that own their residual (`stage_boundaries` false): the complete stream, to be read and added to in place.
  F32View owned();

  /// The next read, or owned(), also copies the complete residual to `out` [rows, hidden] (hidden-state capture).
  void capture_next(F32View out) { capture_ = out; }

 private:
  /// Every contribution has been added: serves the capture.
  void complete();

  F32View residual_;
  State state_ = State::kInitial;
  std::optional<Partial> pending_;
  F32View capture_;
};

}  // namespace lamina
