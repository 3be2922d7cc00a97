#include "layers/boundary/residual_stream.h"

#include <algorithm>
#include <cstring>

namespace lamina {
namespace {

std::span<std::byte> bytes_of(F32View view) {
  return std::as_writable_bytes(std::span(view.data, static_cast<size_t>(view.rows * view.cols)));
}

std::span<int64_t> take_counts(ForwardContext& ctx, int count) {
  return {static_cast<int64_t*>(ctx.memory.step().take_bytes(static_cast<size_t>(count) * sizeof(int64_t))), static_cast<size_t>(count)};
}

/// What a rank shows its peers while they finish each other's rows.
struct Window {
  F32View contribution;   // [produced rows, hidden], this rank's addend
  F32View residual;       // [held rows, hidden]
  MutableActivation out;  // [wanted rows, hidden]
};

static_assert(sizeof(Window) <= ResidualStream::kBytesPerRead);

/// Whether ranks that exchange normed rows write them alike.
bool same_type(const MutableActivation& a, const MutableActivation& b) {
  return a.dtype == b.dtype && a.is_coded() == b.is_coded() && (!a.is_coded() || *a.scales.data == *b.scales.data);
}

const Window& window(std::span<const void* const> peers, int rank) { return *static_cast<const Window*>(peers[static_cast<size_t>(rank)]); }

}  // namespace

RowMap::RowMap(ForwardContext& ctx, const RowGroups& groups, bool scattered)
    : groups_(groups), scattered_(scattered), full_(ctx.batch.full_rows()), attn_dp_(ctx.batch.dp_rows) {
  const ParallelGroup &tp = *groups.tp, &attn = *groups.attn_tp;
  tp_ = take_counts(ctx, tp.size);
  attn_tp_ = take_counts(ctx, attn.size);
  for (int d = 0; d < groups.attn_dp->size; ++d) {
    const int64_t rows = attn_dp_.empty() ? full_ : attn_dp_[static_cast<size_t>(d)];
    for (int a = 0; a < attn.size; ++a) {
      const RowRange share = row_share(rows, attn.size, a);
      tp_[static_cast<size_t>(d * attn.size + a)] = share.count;
      if (d == groups.attn_dp->rank) attn_tp_[static_cast<size_t>(a)] = share.count;
    }
  }
  local_ = {ctx.batch.local_begin(), ctx.batch.rows()};
  const RowRange share = row_share(local_.count, attn.size, attn.rank);
  own_ = {local_.begin + share.begin, share.count};
}

std::span<const int64_t> RowMap::counts(const ParallelGroup& group) const {
  if (&group == groups_.tp) return tp_;
  if (&group == groups_.attn_tp) return attn_tp_;
  LAMINA_CHECK(&group == groups_.attn_dp, "a group that does not share rows");
  return attn_dp_;
}

ResidualStream::ResidualStream(ForwardContext& ctx, const RowGroups& groups, F32View full)
    : groups_(groups), map_(ctx, groups_, is_scattered(ctx.variant)), residual_(part(full, 0, map_.held())) {}

ResidualStream::ResidualStream(ForwardContext& ctx, const RowGroups& groups, int64_t width, const ParallelGroup& pp,
                               const ParallelGroup& owed_over)
    : groups_(groups), map_(ctx, groups_, is_scattered(ctx.variant)) {
  residual_ = ctx.memory.step().matrix(map_.held().count, width);
  const F32View owed = ctx.memory.step().matrix(map_.of(StageRows::kFull).count, width);
  pp.communicator->receive(bytes_of(residual_), pp.rank - 1);
  pp.communicator->receive(bytes_of(owed), pp.rank - 1);
  record({owed, owed_over});
}

ResidualStream::~ResidualStream() { LAMINA_CHECK(state_ != State::kPending, "a contribution to the residual was never read"); }

void ResidualStream::hand_over(const ParallelGroup& pp) {
  LAMINA_CHECK(state_ == State::kPending, "a pipeline stage ends with the output of a layer");
  const PartialAccess::Owed owed = PartialAccess::consume(std::move(*pending_));
  pending_.reset();
  state_ = State::kWritten;
  pp.communicator->send(bytes_of(residual_), pp.rank + 1);
  pp.communicator->send(bytes_of(owed.values), pp.rank + 1);
}

Activation ResidualStream::read(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm, const BoundaryName& name) {
  F32View contribution;  // none: data is null
  if (state_ == State::kPending) {
    const PartialAccess::Owed owed = PartialAccess::consume(std::move(*pending_));
    pending_.reset();
    LAMINA_CHECK(owed.group == plan.sum && owed.values.rows == map_.of(plan.produced).count, "the boundary plan does not fit the owed sum");
    contribution = owed.values;
  }
  const Activation out = plan.fused ? read_fused(ctx, plan, norm, contribution) : read_in_steps(ctx, plan, norm, contribution);
  complete(ctx);
  ctx.tap(name.module, name.value, residual_, map_.held().begin);
  return out;
}

Activation ResidualStream::read_in_steps(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm, F32View contribution) {
  const RowRange held = map_.held(), wanted = map_.of(plan.wanted);
  const MutableActivation out = norm.output(ctx, wanted.count);
  const MutableActivation mine = out.slice(held.begin - wanted.begin, held.count);
  if (contribution.data != nullptr) {
    Communicator& sum = *plan.sum->communicator;
    if (plan.completion == Completion::kAllReduce) sum.all_reduce_sum(contribution);
    if (plan.completion == Completion::kReduceScatter) sum.reduce_scatter_rows(contribution, map_.counts(*plan.sum));
    const ConstF32View parts[] = {part(contribution, map_.of(plan.produced).begin, held)};
    norm.add_forward(ctx, residual_, parts, mine);
  } else {
    norm.forward(ctx, residual_, mine);
  }
  if (plan.gather != nullptr) plan.gather->communicator->all_gather_rows(out, map_.counts(*plan.gather));
  return out.view();
}

/// Every rank finishes its share of the rows: it reads its peers' addends where they lie, and writes the normed rows to the memory of the
/// first rank that reads them, from where all read. That memory lives until the end of the next stage, before which every rank has
/// passed another boundary.
Activation ResidualStream::read_fused(ForwardContext& ctx, const BoundaryPlan& plan, const RmsNorm& norm, F32View contribution) {
  const ParallelGroup &tp = *groups_.tp, &attn = *groups_.attn_tp;
  const int first_attn = groups_.attn_dp->rank * attn.size;  // tp rank of the first of this attn_tp group
  const RowRange own = map_.own(), held = map_.held(), wanted = map_.of(plan.wanted), produced = map_.of(plan.produced);
  // In step memory: after a fault a peer may still look when this rank has left.
  const Window& mine = *ctx.memory.step().take<Window>(1) = {contribution, residual_, norm.output(ctx, wanted.count)};
  const std::span<const void* const> peers = tp.communicator->publish(&mine);
  if (peers.empty()) return mine.out.view();  // a fault: the step is void

  const bool owed = plan.completion != Completion::kNothingOwed;  // else this rank's own output is complete
  const int addends = contribution.data == nullptr ? 0 : owed ? plan.sum->size : 1;
  const int first_addend = !owed ? tp.rank : plan.sum == groups_.tp ? 0 : first_attn;
  const std::span parts(ctx.arena().take<ConstF32View>(addends), static_cast<size_t>(addends));
  for (int a = 0; a < addends; ++a) {
    parts[static_cast<size_t>(a)] = part(window(peers, first_addend + a).contribution, produced.begin, own);
  }
  const Window& target = window(peers, plan.wanted == StageRows::kFull ? 0 : first_attn);
  LAMINA_CHECK(same_type(target.out, mine.out), "ranks differ in how they read a norm");
  norm.add_forward(ctx, part(residual_, held.begin, own), std::span<const ConstF32View>(parts),
                   target.out.slice(own.begin - wanted.begin, own.count));
  if (plan.spread != nullptr) {
    for (int a = 0; a < attn.size; ++a) {
      if (a == attn.rank) continue;
      const F32View there = part(window(peers, first_attn + a).residual, held.begin, own);
      if (own.count > 0) std::memcpy(there.data, part(residual_, held.begin, own).data, bytes_of(there).size());
    }
  }
  const int64_t row = residual_.cols * static_cast<int64_t>(sizeof(float));
  const int64_t spread = plan.spread != nullptr ? held.count - own.count : 0;
  const int64_t gathered = (wanted.count - own.count) * residual_.cols * dtype_bytes(mine.out.dtype);
  tp.communicator->count_received(static_cast<uint64_t>((std::max(addends - 1, 0) * own.count + spread) * row + gathered));
  const Activation out = target.out.view();
  tp.communicator->barrier();
  return out;
}

void ResidualStream::complete(ForwardContext& ctx) {
  state_ = State::kWritten;
  if (capture_.data == nullptr) return;
  const RowRange held = map_.held(), local = map_.of(StageRows::kLocal);
  for (int64_t r = 0; r < held.count; ++r) {
    std::memcpy(capture_.row(held.begin - local.begin + r), residual_.row(r), static_cast<size_t>(residual_.cols) * sizeof(float));
  }
  if (is_scattered(ctx.variant)) {
    const MutableActivation all{
        .dtype = DType::kF32, .data = capture_.data, .rows = capture_.rows, .cols = capture_.cols, .stride = capture_.stride};
    groups_.attn_tp->communicator->all_gather_rows(all, map_.counts(*groups_.attn_tp));
  }
  capture_ = {};
}

void ResidualStream::record(Partial contribution) {
  LAMINA_CHECK(state_ != State::kPending, "a second contribution before the first was read");
  pending_.emplace(std::move(contribution));
  state_ = State::kPending;
}

F32View ResidualStream::owned(ForwardContext& ctx) {
  LAMINA_CHECK(state_ != State::kPending, "the residual is not complete");
  LAMINA_CHECK(!is_scattered(ctx.variant), "a scattered residual cannot be owned by a layer");
  complete(ctx);
  return residual_;
}

}  // namespace lamina
