#include "layers/linear.h"

#include <algorithm>

#include "base/strings.h"
#include "kernels/gated.h"
#include "layers/boundary/layer_stack.h"

namespace lamina {
namespace {

ShardDim whole(int64_t size) { return {.rule = ShardRule::kReplicate, .units = size, .unit = 1, .group = nullptr}; }
ShardDim split_over(int64_t size, const ParallelGroup& group) {
  return {.rule = ShardRule::kSplit, .units = size, .unit = 1, .group = &group};
}

/// x in `dtype`, rounded into stage memory when it comes in f32; codes as they are.
Activation rounded(ForwardContext& ctx, const Activation& x, DType dtype) {
  if (x.dtype == dtype || x.is_coded()) return x;
  LAMINA_CHECK(x.dtype == DType::kF32, "a rounded activation cannot feed an f32 matmul");
  const MutableActivation out = ctx.arena().activation(dtype, x.rows, x.cols);
  const ConstF32View in = x.f32();
  const kernels::Kernels& kernels = *ctx.compute.kernels;
  ctx.compute.team->parallel_for(x.rows, 1, [&](int64_t begin, int64_t end, int) {
    kernels.round_to_bf16(in.slice(begin, end - begin), out.slice(begin, end - begin));
  });
  return out.view();
}

constexpr size_t kAllocationSlack = 256;  // alignment of one arena allocation

}  // namespace

LinearLayer::LinearLayer(BuildContext& build, const LinearOptions& options, const Cut& shape)
    : name_(options.name), fuses_(build.stack().fuses()) {
  const std::optional<ShardCut> cols = build.check(cut(shape.cols, name_));
  local_in_ = cols ? cols->local.value : 0;
  for (const ParamPart& part : shape.parts) {
    const std::optional<ShardCut> rows = build.check(cut(part.rows, name_));
    local_out_ += rows ? rows->local.value : 0;
  }
  auto weights = build.check(build.format().create_weights({name_, shape.parts, shape.cols}, build.params()));
  if (weights) weights_ = std::move(*weights);
  if (!options.bias) return;
  Param bias{.name = cat(name_, ".bias"), .parts = shape.parts, .cols = {}, .store = nullptr};
  auto store = std::make_unique<VectorStore>(local_out_);
  bias_ = store.get();
  bias.store = std::move(store);
  build.params().add(std::move(bias));
  add_bias_ = shape.bias_here && !options.skip_bias_add;
}

std::span<const float> LinearLayer::bias() const {
  if (bias_ == nullptr) return {};
  return {bias_->data(), static_cast<size_t>(local_out_)};
}

size_t LinearLayer::stage_bytes(int64_t rows) const {
  return static_cast<size_t>(rows * (local_out_ * 4 + local_in_ * 2 + Arena::kActivationPad)) + 2 * kAllocationSlack;
}

Activation LinearLayer::input(ForwardContext& ctx, const Activation& x) const {
  LAMINA_CHECK(x.cols == local_in_ && (!x.is_coded() || input_codes()), name_.c_str());
  return rounded(ctx, x, input_dtype());
}

F32View LinearLayer::multiply(ForwardContext& ctx, const Activation& x) const {
  const F32View out = ctx.arena().matrix(x.rows, local_out_);
  if (x.rows == 0) return out;
  weights_->matmul(ctx.compute, input(ctx, x), added_bias(), out);
  return out;
}

ReplicatedLinear::ReplicatedLinear(BuildContext& build, const LinearOptions& options)
    : LinearLayer(build, options, {.parts = {{"", whole(options.out_features)}}, .cols = whole(options.in_features)}) {}

ColumnParallelLinear::ColumnParallelLinear(BuildContext& build, const LinearOptions& options, bool gather_output)
    : LinearLayer(build, options,
                  {.parts = {{"", split_over(options.out_features, build.group(options.group))}}, .cols = whole(options.in_features)}),
      group_(&build.group(options.group)),
      gather_output_(gather_output) {}

F32View ColumnParallelLinear::forward(ForwardContext& ctx, const Activation& x) const {
  const F32View local = multiply(ctx, x);
  if (!gather_output_ || group_->size == 1) return local;
  const F32View all = ctx.arena().matrix(local.rows, local.cols * group_->size);
  group_->communicator->all_gather_columns(local, all);
  return all;
}

size_t ColumnParallelLinear::stage_bytes(int64_t rows) const {
  const int64_t gathered = gather_output_ && group_->size > 1 ? local_out() * group_->size : 0;
  return LinearLayer::stage_bytes(rows) + static_cast<size_t>(rows * gathered * 4) + kAllocationSlack;
}

MergedColumnParallelLinear::MergedColumnParallelLinear(BuildContext& build, const LinearOptions& options,
                                                       const std::vector<Output>& outputs)
    : LinearLayer(build, options, [&] {
        Cut cut{.parts = {}, .cols = whole(options.in_features)};
        for (const Output& output : outputs) cut.parts.push_back({output.module, split_over(output.features, build.group(options.group))});
        return cut;
      }()) {}

void MergedColumnParallelLinear::forward_gated(ForwardContext& ctx, const Activation& x, const MutableActivation& out) const {
  if (x.rows == 0) return;
  void* scratch = ctx.arena().take_bytes(kernels::gated_scratch_bytes(ctx.compute.team->size()));
  weights().matmul_gated(ctx.compute, input(ctx, x), added_bias(), out, scratch);
}

QkvParallelLinear::QkvParallelLinear(BuildContext& build, const QkvOptions& options)
    : LinearLayer(build,
                  {.name = options.name,
                   .in_features = options.hidden_size,
                   .out_features = 0,
                   .bias = options.bias,
                   .skip_bias_add = false,
                   .group = options.group},
                  [&] {
                    const ParallelGroup* group = &build.group(options.group);
                    const ParallelGroup* kv = options.kv_group.empty() ? group : &build.group(options.kv_group);
                    const int64_t v_dim = options.v_dim > 0 ? options.v_dim : options.qk_dim;
                    return Cut{.parts = {{"q_proj", {ShardRule::kHeads, options.heads, options.qk_dim, group}},
                                         {"k_proj", {ShardRule::kKvHeads, options.kv_heads, options.qk_dim, kv}},
                                         {"v_proj", {ShardRule::kKvHeads, options.kv_heads, v_dim, kv}}},
                               .cols = whole(options.hidden_size)};
                  }()),
      qk_dim_(options.qk_dim),
      v_dim_(options.v_dim > 0 ? options.v_dim : options.qk_dim) {
  const ParallelGroup& group = build.group(options.group);
  const ParallelGroup& kv = options.kv_group.empty() ? group : build.group(options.kv_group);
  if (auto counts = build.check(local_heads(options.heads, options.kv_heads, group, kv))) counts_ = *counts;
}

QkvParallelLinear::Heads QkvParallelLinear::forward(ForwardContext& ctx, const Activation& x) const {
  const F32View qkv = multiply(ctx, x);
  const int64_t q = int64_t{counts_.q_heads} * qk_dim_;
  const int64_t k = int64_t{counts_.kv_heads} * qk_dim_;
  const int64_t v = int64_t{counts_.kv_heads} * v_dim_;
  return {qkv.columns(0, q), qkv.columns(q, k), qkv.columns(q + k, v)};
}

RowParallelLinear::RowParallelLinear(BuildContext& build, const LinearOptions& options, bool input_is_parallel)
    : LinearLayer(build, options,
                  {.parts = {{"", whole(options.out_features)}},
                   .cols = split_over(options.in_features, build.group(options.group)),
                   .bias_here = build.group(options.group).rank == 0}),
      group_(&build.group(options.group)),
      input_is_parallel_(input_is_parallel) {
  if (auto slice = build.check(cut(split_over(options.in_features, *group_), options.name))) {
    slice_begin_ = slice->begin;
    slice_count_ = slice->count;
  }
}

Partial RowParallelLinear::forward(ForwardContext& ctx, const Activation& x) const {
  return {multiply(ctx, input_is_parallel_ ? x : x.columns(slice_begin_, slice_count_)), *group_};
}

}  // namespace lamina
