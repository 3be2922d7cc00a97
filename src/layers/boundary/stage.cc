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

const char* variant_name(BatchVariant variant) {
  static constexpr const char* kNames[kBatchVariants] = {"ordinary",  "scattered",           "scattered_uneven",   "dp_padded",
                                                         "dp_ragged", "dp_padded_scattered", "dp_ragged_scattered"};
  return kNames[static_cast<size_t>(variant)];
}

std::string describe(const BoundaryPlan& plan, std::string_view producer) {
  const auto over = [](const ParallelGroup& group) { return cat(" over ", group.name, " (", group.size, " ranks)"); };
  std::string out;
  if (producer.empty()) {
    out = "norm of the embedding";
  } else {
    if (plan.completion == Completion::kAllReduce) out = cat("all-reduce the output of ", producer, over(*plan.sum), ", add it");
    if (plan.completion == Completion::kReduceScatter) out = cat("reduce-scatter the output of ", producer, over(*plan.sum), ", add it");
    if (plan.completion == Completion::kNothingOwed) out = cat("add the output of ", producer);
    out += ", then norm";
  }
  if (plan.spread != nullptr) out += cat(", gather the residual", over(*plan.spread));
  if (plan.gather != nullptr) out += cat(", gather the normed rows", over(*plan.gather));
  if (plan.fused) out += "; in one pass";
  return out;
}

int64_t wire_bytes_per_row(const BoundaryPlan& plan, int64_t width, int64_t activation_bytes) {
  const auto copies = [](const ParallelGroup* group) -> int64_t { return group == nullptr ? 0 : group->size - 1; };
  const int64_t sums = plan.completion == Completion::kAllReduce ? 2 : plan.completion == Completion::kReduceScatter ? 1 : 0;
  const int64_t f32 = width * static_cast<int64_t>(sizeof(float));
  return (sums * copies(plan.sum) + copies(plan.spread)) * f32 + copies(plan.gather) * plan.gather_groups * width * activation_bytes;
}

}  // namespace lamina
