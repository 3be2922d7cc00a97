// Which tensor fills which parameter.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "weights/loader.h"

namespace lamina {

namespace {

constexpr int kWhole = -1;         // the fused tensor, or the only one
constexpr size_t kNamesShown = 8;  // of each list of a fault
constexpr ShardDim kOneColumn = {.rule = ShardRule::kReplicate, .units = 1, .unit = 1, .group = nullptr};

/// The tensors that fill one parameter: `whole` or one a part.
struct Sources {
  Param* param = nullptr;
  const TensorInfo* whole = nullptr;
  std::vector<const TensorInfo*> parts;
};

bool is_absent(const Sources& sources) {
  return sources.param->optional && sources.whole == nullptr &&
         std::ranges::all_of(sources.parts, [](const TensorInfo* part) { return part == nullptr; });
}

std::string module_of(std::string_view tensor) { return std::string(tensor.substr(0, tensor.rfind('.'))); }

Status plan_types(const Sources& sources) {
  std::vector<const TensorInfo*> tensors = sources.parts;
  if (is_absent(sources)) tensors.clear();
  if (sources.whole != nullptr) tensors = {sources.whole};
  std::vector<DType> types;
  for (const TensorInfo* tensor : tensors) {
    LAMINA_TRY(sources.param->store->plan({tensor->dtype}, tensor->name));  // so that an error names the tensor
    types.push_back(tensor->dtype);
  }
  return sources.param->store->plan(types, sources.param->name);
}

class Auditor {
 public:
  Auditor(const Checkpoint& checkpoint, const ParamList& params, const NameMap& names, LoadScope scope)
      : checkpoint_(checkpoint), names_(names), scope_(scope) {
    report_.mixed = params.faults();
    sources_.reserve(params.all().size());
    for (const auto& param : params.all()) {
      const size_t index = sources_.size();
      sources_.push_back({param.get(), nullptr, std::vector<const TensorInfo*>(param->parts.size())});
      for (int part = 0; part < static_cast<int>(param->parts.size()); ++part) own(param->part_name(part), {index, part});
      own(param->name, {index, kWhole});
    }
    add_aliases();
  }

  void take(const TensorInfo& tensor) {
    const Slot* slot = find(tensor.name);
    if (slot == nullptr) slot = find(names_.rename(tensor.name));
    if (slot != nullptr) return fill(*slot, tensor);
    if (scope_ == LoadScope::kPart) return;
    const auto owned = [this](const std::string& name) { return find(name) != nullptr; };
    if (std::optional<std::string> reason = names_.skip_reason(tensor.name, owned)) {
      report_.skipped.push_back({tensor.name, *std::move(reason)});
    } else if (tensor.elements() == 0) {
      report_.skipped.push_back({tensor.name, "empty"});
    } else if (is_idle_bias(tensor)) {
      report_.skipped.push_back({tensor.name, "a bias of zeros: this layer has none"});
    } else {
      report_.unexpected.push_back(tensor.name);
    }
  }

  void finish() {
    std::unordered_set<std::string> present;
    for (const Sources& s : sources_) {
      if (!s.param->set.empty() && !is_absent(s)) present.insert(s.param->set);
    }
    for (const Sources& s : sources_) {
      const size_t before = report_.missing.size();
      if (s.whole == nullptr && (!is_absent(s) || present.contains(s.param->set))) {
        for (size_t part = 0; part < s.parts.size(); ++part) {
          if (s.parts[part] == nullptr) report_.missing.push_back(s.param->part_name(static_cast<int>(part)));
        }
      }
      if (report_.missing.size() > before) continue;
      if (const Status types = plan_types(s); !types.ok()) report_.mistyped.push_back(types.error().message);
    }
  }

  const std::vector<Sources>& sources() const { return sources_; }
  AuditReport& report() { return report_; }

 private:
  struct Slot {
    size_t source;
    int part;
  };

  void own(const std::string& name, Slot slot) {
    slots_[name] = slot;
    modules_.insert(module_of(name));
  }

  /// Further spellings, unless a parameter has that name: what a layer owns is never read as something else.
  void add_aliases() {
    std::vector<std::pair<std::string, Slot>> further;
    for (const auto& [name, slot] : slots_) {
      for (const std::string& alias : sources_[slot.source].param->aliases) further.emplace_back(Param::with_leaf(name, alias), slot);
    }
    for (auto& [name, slot] : further) slots_.emplace(std::move(name), slot);
  }

  /// GPTQ writers give every layer a bias; of a layer without one it must change nothing.
  bool is_idle_bias(const TensorInfo& tensor) const {
    constexpr int64_t kLongest = int64_t{1} << 24;
    if (!tensor.name.ends_with(".bias") || tensor.elements() > kLongest) return false;
    const auto has_module = [this](const std::string& name) { return modules_.contains(module_of(name)); };
    if (!has_module(names_.rename(tensor.name)) && !has_module(tensor.name) && !names_.skip_reason(tensor.name, has_module)) return false;
    return std::ranges::all_of(checkpoint_.data(tensor), [](uint8_t byte) { return byte == 0; });
  }

  const Slot* find(const std::string& name) const {
    const auto found = slots_.find(name);
    return found == slots_.end() ? nullptr : &found->second;
  }

  void fill(const Slot& slot, const TensorInfo& tensor) {
    Sources& s = sources_[slot.source];
    const TensorInfo* other = s.whole;
    if (slot.part != kWhole && other == nullptr) other = s.parts[static_cast<size_t>(slot.part)];
    if (slot.part == kWhole && other == nullptr) {
      const auto part = std::find_if(s.parts.begin(), s.parts.end(), [](const TensorInfo* p) { return p != nullptr; });
      if (part != s.parts.end()) other = *part;
    }
    if (other != nullptr) {
      report_.duplicate.push_back(cat(tensor.name, " (its place is taken by ", other->name, ")"));
      return;
    }
    (slot.part == kWhole ? s.whole : s.parts[static_cast<size_t>(slot.part)]) = &tensor;
    if (s.param->fits(tensor.shape, slot.part)) {
      ++report_.loaded_tensors;
    } else {
      const std::vector<int64_t> wanted = s.param->on_disk_shape(slot.part);
      report_.misshaped.push_back(cat(tensor.name, ": file has ", shape_string(tensor.shape), ", the model needs ", shape_string(wanted)));
    }
  }

  const Checkpoint& checkpoint_;
  const NameMap& names_;
  LoadScope scope_;
  std::vector<Sources> sources_;
  std::unordered_map<std::string, Slot> slots_;
  std::unordered_set<std::string> modules_;  // that own parameters
  AuditReport report_;
};

Auditor audited(const Checkpoint& checkpoint, const ParamList& params, const NameMap& names, LoadScope scope) {
  Auditor auditor(checkpoint, params, names, scope);
  for (const TensorInfo& tensor : checkpoint.tensors()) auditor.take(tensor);
  auditor.finish();
  return auditor;
}

/// This rank's rows of every part, each out of its own tensor (or null) or out of the fused one.
Result<ParamLoad> cut_pieces(const Sources& sources) {
  const Param& param = *sources.param;
  ParamLoad load{sources.param, {}};
  LAMINA_ASSIGN(const ShardCut cols, cut(param.is_vector() ? kOneColumn : param.cols, param.name));
  int64_t fused_row = 0;
  int64_t local_row = 0;
  for (size_t part = 0; part < param.parts.size(); ++part) {
    LAMINA_ASSIGN(const ShardCut rows, cut(param.parts[part].rows, param.name));
    const bool fused = sources.whole != nullptr;
    const LoadPiece piece{.tensor = fused ? sources.whole : sources.parts[part],
                          .part = static_cast<int>(part),
                          .source_row = rows.begin + (fused ? fused_row : 0),
                          .source_col = cols.begin,
                          .rows = rows.count,
                          .cols = cols.count,
                          .local_row = local_row};
    if (piece.rows > 0) load.pieces.push_back(piece);
    fused_row += param.parts[part].rows.on_disk().value;
    local_row += rows.local.value;
  }
  return load;
}

Status add_load(const Sources& sources, LoadPlan& plan) {
  LAMINA_ASSIGN(ParamLoad load, cut_pieces(sources));
  plan.loads.push_back(std::move(load));
  return {};
}

void append_list(std::string& out, std::string_view label, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const size_t shown = std::min(names.size(), kNamesShown);
  out += cat(out.empty() ? "" : "; ", label, " ", names.size(), " (",
             join({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown)}, ", "));
  if (shown < names.size()) out += cat(", and ", names.size() - shown, " more");
  out += ")";
}

}  // namespace

std::array<AuditReport::List, 6> AuditReport::faults() const {
  return {{{"mixed", mixed},
           {"missing", missing},
           {"unexpected", unexpected},
           {"mis-shaped", misshaped},
           {"mistyped", mistyped},
           {"duplicate", duplicate}}};
}

bool AuditReport::clean() const {
  return std::ranges::all_of(faults(), [](const List& list) { return list.tensors.empty(); });
}

std::string AuditReport::fault() const {
  std::string lists;
  for (const List& list : faults()) append_list(lists, list.name, list.tensors);
  return cat("checkpoint does not fit the model: ", lists);
}

AuditReport audit(const Checkpoint& checkpoint, const ParamList& params, const NameMap& names) {
  return std::move(audited(checkpoint, params, names, LoadScope::kWhole).report());
}

Result<LoadPlan> plan_load(const Checkpoint& checkpoint, ParamList& params, const NameMap& names, LoadScope scope) {
  Auditor auditor = audited(checkpoint, params, names, scope);
  if (!auditor.report().clean()) return error(auditor.report().fault());
  LoadPlan plan;
  plan.params = &params;
  for (const Sources& sources : auditor.sources()) {
    if (!is_absent(sources)) LAMINA_TRY(add_load(sources, plan));
  }
  plan.bytes = params.bytes();
  plan.report = std::move(auditor.report());
  return plan;
}

Result<LoadPlan> plan_dummy(ParamList& params, DType dtype) {
  const AuditReport report{.mixed = params.faults()};
  if (!report.clean()) return error(report.fault());
  LoadPlan plan;
  plan.params = &params;
  for (const auto& param : params.all()) {
    std::vector<DType> types;
    if (!param->optional) types.push_back(param->is_plain() ? dtype : param->store->dummy().dtype);
    LAMINA_TRY(param->store->plan(types, param->name));
    if (!param->optional) LAMINA_TRY(add_load({param.get(), nullptr, std::vector<const TensorInfo*>(param->parts.size())}, plan));
  }
  plan.bytes = params.bytes();
  return plan;
}

}  // namespace lamina
