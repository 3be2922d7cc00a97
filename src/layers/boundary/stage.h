#pragma once
// A decoder layer as a list of stage declarations: pure data. What happens between stages is decided when the stack is bound.

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

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

/// Batches that need another plan; each boundary has one plan for each.
enum class BatchVariant { kOrdinary };
inline constexpr int kBatchVariants = 1;

/// How a boundary obtains the complete sum that the producer before it owes.
enum class Completion { kNothingOwed, kAllReduce };

struct BoundaryPlan {
  Completion completion = Completion::kNothingOwed;
};
/// "all-reduce the output of layer 3 attention over tp (4 ranks), add it, then norm"; for `inspect`. `producer`: empty before the first.
std::string describe(const BoundaryPlan& plan, std::string_view producer, std::string_view group, int ranks);

}  // namespace lamina
