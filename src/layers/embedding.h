#pragma once
// Vocabulary-parallel embedding and head. Rows are padded inside; padding is never looked up, sampled or shown.

#include <memory>
#include <span>
#include <string>

#include "layers/context.h"
#include "weights/format.h"

namespace lamina {

class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(BuildContext& build, std::string name, int64_t vocab_size, int64_t hidden_size, std::string_view group = "tp");

  /// Rows of `ids` (all in [0, vocab)) into out [ids, hidden]; the sum over ranks is completed here.
  void forward(ForwardContext& ctx, std::span<const TokenId> ids, F32View out) const;

  const LinearWeights& weights() const { return *weights_; }
  int64_t vocab_size() const { return vocab_size_; }
  /// Rows of this rank, padding included.
  int64_t local_rows() const { return rows_.local.value; }
  /// The ids among them: [first_id(), first_id() + local_ids()), none on a rank that holds padding only.
  int64_t first_id() const { return rows_.begin; }
  int64_t local_ids() const { return rows_.count; }
  const ParallelGroup& group() const { return *group_; }

 private:
  int64_t vocab_size_;
  const ParallelGroup* group_;
  ShardCut rows_;
  std::unique_ptr<LinearWeights> weights_;
};

/// The head: its own matrix, or the embedding object itself when tied (one copy in memory). The last of several pipeline stages has no
/// embedding: its tied head is a matrix of its own, named as the embedding.
class ParallelLMHead {
 public:
  ParallelLMHead(BuildContext& build, std::string name, int64_t vocab_size, int64_t hidden_size, std::string_view group = "tp");
  /// Tied: `embedding` outlives the head. An error when `group` cuts it otherwise.
  ParallelLMHead(BuildContext& build, const VocabParallelEmbedding& embedding, std::string_view group = "tp");

  DType input_dtype() const { return table_->weights().input_dtype(); }
  /// x [rows, hidden] -> logits [rows, vocab] in stage memory, padding cut off, on rank 0 of the group; the others get a view without data.
  /// `candidates` as CausalLM::logits. Collective, same rows and candidates on all ranks.
  F32View forward(ForwardContext& ctx, const Activation& x, int candidates) const;
  int64_t vocab_size() const { return table_->vocab_size(); }
  const ParallelGroup& group() const { return table_->group(); }
  size_t stage_bytes(int64_t rows) const;

 private:
  std::unique_ptr<VocabParallelEmbedding> own_;
  const VocabParallelEmbedding* table_;
};

}  // namespace lamina
