#include "layers/norm.h"

#include "base/strings.h"
#include "layers/input_quant.h"

namespace lamina {
namespace {
constexpr int64_t kRowGrain = 4;  // rows a thread claims at least: below that the fork costs more than the rows
}

RmsNorm::RmsNorm(BuildContext& build, std::string name, int64_t width, double eps)
    : name_(std::move(name)), width_(width), eps_(static_cast<float>(eps)) {
  auto store = std::make_unique<VectorStore>(width);
  weight_ = store.get();
  build.params().add({.name = cat(name_, ".weight"),
                      .parts = {{"", {.rule = ShardRule::kReplicate, .units = width, .unit = 1, .group = nullptr}}},
                      .cols = {},
                      .store = std::move(store)});
}

std::optional<InputCodes> RmsNorm::output_codes() const {
  std::optional<InputCodes> codes;
  if (consumer_ != nullptr) codes = consumer_->input_codes();
  return codes && codes->scale != nullptr ? codes : std::nullopt;
}

DType RmsNorm::output_dtype() const {
  if (const std::optional<InputCodes> codes = output_codes()) return codes->codes;
  return consumer_ == nullptr ? DType::kF32 : consumer_->input_dtype();
}

MutableActivation RmsNorm::output(ForwardContext& ctx, int64_t rows) const {
  if (const std::optional<InputCodes> codes = output_codes()) return coded_input(ctx, *codes, rows, width_);
  return ctx.arena().activation(output_dtype(), rows, width_);
}

size_t RmsNorm::stage_bytes(int64_t rows, int threads) const {
  const size_t out = static_cast<size_t>(rows * (width_ * 4 + Arena::kActivationPad)) + 64;
  return out + coded_rows_bytes(rows, width_, threads);
}

Activation RmsNorm::forward(ForwardContext& ctx, ConstF32View x) const {
  const MutableActivation out = output(ctx, x.rows);
  forward(ctx, x, out);
  return out.view();
}

void RmsNorm::forward(ForwardContext& ctx, ConstF32View x, const MutableActivation& out) const {
  if (out.is_coded()) {
    return make_coded_rows(ctx, out, kRowGrain,
                           [&](int64_t r, const MutableActivation& row) { ctx.compute.kernels->rms_norm(x.slice(r, 1), args(), row); });
  }
  ctx.compute.team->parallel_for(x.rows, kRowGrain, [&](int64_t begin, int64_t end, int) {
    ctx.compute.kernels->rms_norm(x.slice(begin, end - begin), args(), out.slice(begin, end - begin));
  });
}

void RmsNorm::add_forward(ForwardContext& ctx, F32View residual, std::span<const ConstF32View> parts, const MutableActivation& out) const {
  if (parts.empty()) return forward(ctx, residual, out);
  const auto add_norm = [&](int64_t begin, int64_t count, const MutableActivation& target) {
    const kernels::Addends addends{.parts = parts.data(), .count = std::ssize(parts), .first_row = begin};
    ctx.compute.kernels->add_rms_norm(residual.slice(begin, count), addends, args(), target);
  };
  if (out.is_coded()) {
    return make_coded_rows(ctx, out, kRowGrain, [&](int64_t r, const MutableActivation& row) { add_norm(r, 1, row); });
  }
  ctx.compute.team->parallel_for(residual.rows, kRowGrain,
                                 [&](int64_t begin, int64_t end, int) { add_norm(begin, end - begin, out.slice(begin, end - begin)); });
}

void RmsNorm::forward_heads(ForwardContext& ctx, F32View x, int heads) const {
  ctx.compute.team->parallel_for(x.rows, kRowGrain, [&](int64_t begin, int64_t end, int) {
    ctx.compute.kernels->head_rms_norm(x.slice(begin, end - begin), heads, static_cast<int>(width_), args());
  });
}

}  // namespace lamina
