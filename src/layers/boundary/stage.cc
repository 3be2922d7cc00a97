#include "layers/boundary/stage.h"

#include "base/strings.h"

namespace lamina {
namespace {

const char* name(StageRead read) { return read == StageRead::kNorm ? "norm" : "norm_quant"; }
const char* name(StageUpdate) { return "plain_add"; }
const char* name(bool value) { return value ? "true" : "false"; }
std::string_view name(std::string_view text) { return text; }
const char* name(StageKind kind) { return stage_kind_name(kind); }
const char* name(StageReduction reduction) {
  switch (reduction) {
    case StageReduction::kAlwaysPartial:
      return "always_partial";
    case StageReduction::kExitScoped:
      return "exit_scoped";
    case StageReduction::kTailAfterSum:
      return "tail_after_sum";
  }
  return "";
}

template <class T>
bool differs(std::string& out, std::string_view field, const T& declared, const T& expected) {
  if (declared == expected) return false;
  out = cat(field, " is ", name(declared), ", the function says ", name(expected));
  return true;
}

}  // namespace

const char* stage_kind_name(StageKind kind) { return kind == StageKind::kAttention ? "attention" : "ffn"; }

Status validate(const StageDecl& decl) {
  if (decl.kind == StageKind::kAttention && decl.reduction != StageReduction::kAlwaysPartial) {
    return error("an attention stage must be always_partial, not ", name(decl.reduction));
  }
  if (decl.kind == StageKind::kFfn && decl.reduction == StageReduction::kAlwaysPartial) {
    return error("an ffn stage cannot be always_partial: allowed are exit_scoped and tail_after_sum");
  }
  if (decl.kind == StageKind::kAttention && (decl.sparse || decl.next_layer_sparse)) {
    return error("an attention stage cannot be sparse");
  }
  return {};
}

std::string first_difference(const StageDecl& a, const StageDecl& b) {
  std::string out;
  (void)(differs(out, "kind", a.kind, b.kind) || differs(out, "read", a.read, b.read) ||
         differs(out, "reduction", a.reduction, b.reduction) || differs(out, "update", a.update, b.update) ||
         differs(out, "sparse", a.sparse, b.sparse) || differs(out, "next_layer_sparse", a.next_layer_sparse, b.next_layer_sparse) ||
         differs(out, "group", a.group, b.group));
  return out;
}

std::string describe(const BoundaryPlan& plan, std::string_view producer, std::string_view group, int ranks) {
  if (producer.empty()) return "norm of the embedding";
  if (plan.completion == Completion::kNothingOwed) return cat("add the output of ", producer, ", then norm");
  return cat("all-reduce the output of ", producer, " over ", group, " (", ranks, " ranks), add it, then norm");
}

}  // namespace lamina
