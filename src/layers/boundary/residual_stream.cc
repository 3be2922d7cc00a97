#include "layers/boundary/residual_stream.h"

#include <cstring>

namespace lamina {

ResidualStream::~ResidualStream() { LAMINA_CHECK(state_ != State::kPending, "a contribution to the residual was never read"); }

Activation ResidualStream::read(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm) {
  Activation out;
  if (state_ == State::kPending) {
    const PartialAccess::Owed owed = PartialAccess::consume(std::move(*pending_));
    pending_.reset();
    LAMINA_CHECK((owed.group->size > 1) == (plan.completion == Completion::kAllReduce), "the boundary plan does not fit the owed sum");
    if (plan.completion == Completion::kAllReduce) owed.group->communicator->all_reduce_sum(owed.values);
    out = norm.add_forward(ctx, residual_, owed.values);
  } else {
    out = norm.forward(ctx, residual_);
  }
  complete();
  return out;
}

void ResidualStream::complete() {
  state_ = State::kWritten;
  if (capture_.data == nullptr) return;
  for (int64_t r = 0; r < capture_.rows; ++r) {
    std::memcpy(capture_.row(r), residual_.row(r), static_cast<size_t>(residual_.cols) * sizeof(float));
  }
  capture_ = {};
}

void ResidualStream::record(Partial contribution) {
  LAMINA_CHECK(state_ != State::kPending, "a second contribution before the first was read");
  pending_.emplace(std::move(contribution));
  state_ = State::kPending;
}

F32View ResidualStream::owned() {
  LAMINA_CHECK(state_ != State::kPending, "the residual is not complete");
  complete();
  return residual_;
}

}  // namespace lamina
