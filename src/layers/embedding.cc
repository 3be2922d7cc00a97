#include "layers/embedding.h"

#include <cstring>

#include "base/strings.h"

namespace lamina {

VocabParallelEmbedding::VocabParallelEmbedding(BuildContext& build, std::string name, int64_t vocab_size, int64_t hidden_size,
                                               std::string_view group)
    : vocab_size_(vocab_size), group_(&build.group(group)) {
  const ShardDim vocab{.rule = ShardRule::kVocab, .units = vocab_size, .unit = 1, .group = group_};
  const ShardDim hidden{.rule = ShardRule::kReplicate, .units = hidden_size, .unit = 1, .group = nullptr};
  if (auto rows = build.check(cut(vocab, name))) rows_ = *rows;
  auto weights = build.check(build.format().create_weights({std::move(name), {{"", vocab}}, hidden}, build.params()));
  if (weights) weights_ = std::move(*weights);
}

void VocabParallelEmbedding::forward(ForwardContext& ctx, std::span<const TokenId> ids, F32View out) const {
  ctx.compute.team->parallel_for(static_cast<int64_t>(ids.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t local = ids[static_cast<size_t>(t)] - rows_.begin;
      if (local >= 0 && local < rows_.count) {
        weights_->row(ctx.compute, local, out.row(t));
      } else {
        std::memset(out.row(t), 0, static_cast<size_t>(out.cols) * sizeof(float));
      }
    }
  });
  if (group_->size > 1) group_->communicator->all_reduce_sum(out);
}

ParallelLMHead::ParallelLMHead(BuildContext& build, std::string name, int64_t vocab_size, int64_t hidden_size, std::string_view group)
    : own_(std::make_unique<VocabParallelEmbedding>(build, std::move(name), vocab_size, hidden_size, group)), table_(own_.get()) {}

ParallelLMHead::ParallelLMHead(const VocabParallelEmbedding& tied) : table_(&tied) {}

F32View ParallelLMHead::forward(ForwardContext& ctx, const Activation& x) const {
  const F32View local = ctx.arena().matrix(x.rows, table_->local_rows());
  table_->weights().matmul(ctx.compute, x, nullptr, local);
  const ParallelGroup& group = table_->group();
  if (group.size == 1) return local.columns(0, vocab_size());
  const F32View all = ctx.arena().matrix(x.rows, local.cols * group.size);
  group.communicator->all_gather_columns(local, all);
  return all.columns(0, vocab_size());
}

size_t ParallelLMHead::stage_bytes(int64_t rows) const {
  const int64_t ranks = table_->group().size;
  const int64_t columns = table_->local_rows() * (ranks == 1 ? 1 : ranks + 1);
  return static_cast<size_t>(rows * columns * 4) + 256;
}

}  // namespace lamina
