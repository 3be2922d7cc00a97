#pragma once
// The largest logits of each row, as ranks of a head send them to the one that samples.

#include "layers/context.h"

namespace lamina {

/// A logit and its id. -inf: none.
struct LogitCandidate {
  float value;
  TokenId id;
};

/// Whether sending `candidates` of `local_columns` logits is much less than sending all of them.
bool candidates_pay(int candidates, int64_t local_columns);
/// Stage memory of gather_candidates, when they pay.
size_t candidates_bytes(int64_t rows, int64_t local_columns, int64_t vocab_size, int ranks);

/// `local` [rows, ids] are the logits of ids [first_id, first_id + local.cols); columns may be none. Each rank sends its `count` largest
/// (lowest ids on ties; neither NaN nor -inf) to rank 0 of `group`, which gets a row [rows, vocab_size] in stage memory that holds all that
/// were sent and -inf elsewhere; other ranks get a view without data. Collective.
F32View gather_candidates(ForwardContext& ctx, const ParallelGroup& group, ConstF32View local, int64_t first_id, int count,
                          int64_t vocab_size);

}  // namespace lamina
