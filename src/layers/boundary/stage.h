#pragma once
// A decoder layer as a list of stage declarations: pure data. What happens between stages is decided when the stack is bound.

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "parallel/topology.h"

namespace lamina {

enum class StageKind { kAttention, kFfn };
/// What the stage reads: the norm of the residual, or that norm in the type its matmul multiplies.
enum class StageRead { kNorm, kNormQuant };
enum class StageReduction {
  kAlwaysPartial,  // attention: the output is always one rank's addend
  kExitScoped,     // FFN: who completes the sum is decided at the exit, per batch variant
  kTailAfterSum    // FFN that adds a replicated piece after its own sum: never deferred
};
enum class StageUpdate { kPlainAdd };

struct StageDecl {
  StageKind kind = StageKind::kAttention;
  StageRead read = StageRead::kNorm;
  StageReduction reduction = StageReduction::kAlwaysPartial;
  StageUpdate update = StageUpdate::kPlainAdd;
  bool sparse = false;             // FFN: mixture of experts
  bool next_layer_sparse = false;  // FFN: the next layer's FFN is one
  std::string_view group = "tp";   // over which the output is a sum; a string literal

  friend bool operator==(const StageDecl&, const StageDecl&) = default;
};

inline StageDecl declare_attn(StageDecl decl = {}) {
  decl.kind = StageKind::kAttention;
  return decl;
}
inline StageDecl declare_ffn(StageDecl decl = {.read = StageRead::kNormQuant, .reduction = StageReduction::kExitScoped}) {
  decl.kind = StageKind::kFfn;
  return decl;
}

/// An error when the declaration contradicts itself (an attention that is not kAlwaysPartial, ...).
Status validate(const StageDecl& decl);
const char* stage_kind_name(StageKind kind);
/// "sparse is true, the function says false": the first field in which two declarations differ; empty when equal.
std::string first_difference(const StageDecl& declared, const StageDecl& expected);

/// Which rows a stage works on: attention on those of its attention-DP rank, an FFN on all. The same without attention data parallelism.
enum class StageRows { kLocal, kFull };
inline StageRows stage_rows(StageKind kind) { return kind == StageKind::kAttention ? StageRows::kLocal : StageRows::kFull; }

/// Batches that need another plan; each boundary has one plan for each.
enum class BatchVariant {
  kOrdinary,           // every rank of an attn_tp group holds the residual of all local rows
  kScattered,          // sequence-parallel: each rank holds its share of the rows, which attn_tp divides
  kScatteredUneven,    // the same when it does not divide them: shares differ by a row, some may be empty
  kDpPadded,           // attention-DP rows, padded to those of the longest rank; the residual as in kOrdinary
  kDpRagged,           // attention-DP rows as they are
  kDpPaddedScattered,  // the same two with the residual scattered over attn_tp
  kDpRaggedScattered
};
inline constexpr int kBatchVariants = 7;
const char* variant_name(BatchVariant variant);
inline bool is_scattered(BatchVariant v) {
  return v != BatchVariant::kOrdinary && v != BatchVariant::kDpPadded && v != BatchVariant::kDpRagged;
}

/// How a boundary obtains the complete sum that the producer before it owes.
enum class Completion { kNothingOwed, kAllReduce, kReduceScatter };

/// One edge, resolved. Ranks and groups are those of the rank that bound it.
struct BoundaryPlan {
  Completion completion = Completion::kNothingOwed;
  const ParallelGroup* sum = nullptr;      // over which the producer's output is a sum; null when there is no producer
  StageRows produced = StageRows::kLocal;  // rows of the producer's output
  StageRows wanted = StageRows::kLocal;    // rows the reader takes
  const ParallelGroup* gather = nullptr;   // ranks that exchange normed rows, so that each has all it wants; null: it has them
  int gather_groups = 1;                   // groups of that name in which the same row is exchanged
  const ParallelGroup* spread = nullptr;   // ranks that exchange the rows of the residual that each has completed; null: nobody
  bool fused = false;                      // complete, add, norm and gather in one pass over memory that the ranks share
};
/// "all-reduce the output of layer 3 attention over tp (4 ranks), add it, then norm"; for `inspect`. `producer`: empty before the first.
std::string describe(const BoundaryPlan& plan, std::string_view producer);
/// Bytes that go between the ranks of a stage, over all of them, for one full row of `width` values that the reader takes in
/// `activation_bytes` a value.
int64_t wire_bytes_per_row(const BoundaryPlan& plan, int64_t width, int64_t activation_bytes);

}  // namespace lamina
