// Parameters and what each rank holds of their sources.

#include <algorithm>

#include "base/strings.h"
#include "plan/accounting.h"
#include "plan/inspect_parts.h"

namespace lamina {
namespace {

const char* rule_name(ShardRule rule) {
  switch (rule) {
    case ShardRule::kReplicate:
      return "replicate";
    case ShardRule::kSplit:
      return "split";
    case ShardRule::kHeads:
      return "heads";
    case ShardRule::kKvHeads:
      return "kv_heads";
    case ShardRule::kVocab:
      return "vocab";
  }
  return "";
}

/// "heads | kv_heads | kv_heads" over dim 0, then " x split" when dim 1 is cut.
std::string rule_string(const Param& param) {
  std::vector<std::string> parts;
  for (const ParamPart& part : param.parts) parts.emplace_back(rule_name(part.rows.rule));
  std::string out = join(parts, " | ");
  if (!param.is_vector() && param.cols.rule != ShardRule::kReplicate) out += cat(" x ", rule_name(param.cols.rule));
  return out;
}

/// Who cuts the tensors of a parameter: "tp of 2"; null where every rank holds all of them.
Json group_json(const Param& param) {
  std::vector<std::string> groups;
  const auto add = [&](const ShardDim& dim) {
    if (dim.rule == ShardRule::kReplicate || dim.group == nullptr) return;
    std::string group = cat(dim.group->name, " of ", dim.group->size);
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(std::move(group));
  };
  for (const DiskDim& dim : param.dims()) {
    if (dim.axis == DiskDim::Axis::kCols) add(param.cols);
    if (dim.axis != DiskDim::Axis::kRows) continue;
    for (const ParamPart& part : param.parts) add(part.rows);
  }
  return groups.empty() ? Json(nullptr) : Json(join(groups, ", "));
}

/// "bytes", and "rank_bytes" where the ranks of a stage differ (by the groups that reach over their edges).
void set_bytes(std::span<const ModelPlan> stage, size_t index, Json& place) {
  const auto bytes_of = [index](const ModelPlan& rank) { return rank.load.loads[index].param->store->bytes(); };
  place.set("bytes", bytes_of(stage.front()));
  if (std::ranges::all_of(stage, [&](const ModelPlan& rank) { return bytes_of(rank) == bytes_of(stage.front()); })) return;
  Json all = Json::array();
  for (const ModelPlan& rank : stage) all.push(Json(static_cast<int64_t>(bytes_of(rank))));
  place.set("rank_bytes", std::move(all));
}

/// The tensor of a part, or the fused one; null without files, or when no rank of the stage holds rows of it.
const TensorInfo* tensor_of(std::span<const ModelPlan> stage, size_t index, int part) {
  for (const ModelPlan& rank : stage) {
    for (const LoadPiece& piece : rank.load.loads[index].pieces) {
      if (piece.part == part) return piece.tensor;
    }
  }
  return nullptr;
}

/// The tensors that fill a parameter, one a part or the fused one.
struct Sources {
  Json json = Json::array();
  bool fused = false;
};

/// With file and byte range when there are files, else the names that will be looked for.
Sources sources_of(std::span<const ModelPlan> stage, size_t index) {
  Sources out;
  const Checkpoint* checkpoint = stage.front().source->checkpoint ? &*stage.front().source->checkpoint : nullptr;
  const Param& param = *stage.front().load.loads[index].param;
  const TensorInfo* last = nullptr;
  for (int part = 0; part < static_cast<int>(param.parts.size()); ++part) {
    if (checkpoint == nullptr) {
      out.json.push(Json(param.part_name(part)));
      continue;
    }
    const TensorInfo* tensor = tensor_of(stage, index, part);
    if (tensor == nullptr || tensor == last) {
      out.fused |= tensor != nullptr;
      continue;
    }
    last = tensor;
    const std::string& path = checkpoint->file_path(tensor->file);
    Json source;
    source.set("tensor", tensor->name);
    source.set("dtype", dtype_name(tensor->dtype));
    source.set("file", path.substr(path.find_last_of('/') + 1));
    source.set("bytes", Json(Json::Array{Json(static_cast<int64_t>(tensor->begin)), Json(static_cast<int64_t>(tensor->end))}));
    out.json.push(std::move(source));
  }
  return out;
}

/// What each rank of a stage holds of the sources: [{"source", "rows", "cols", "at"}] a rank.
Json slices_json(std::span<const ModelPlan> stage, size_t index, bool fused) {
  Json out = Json::array();
  for (const ModelPlan& rank : stage) {
    Json pieces = Json::array();
    const ParamLoad& load = rank.load.loads[index];
    for (const LoadPiece& piece : load.pieces) {
      const DiskRect rect = disk_rect(*load.param, piece);
      Json line;
      line.set("source", fused ? 0 : piece.part);
      line.set("rows", range_json(rect.row, rect.rows));
      line.set("cols", range_json(rect.col, rect.cols));
      line.set("at", piece.local_row);
      pieces.push(std::move(line));
    }
    out.push(std::move(pieces));
  }
  return out;
}

/// Bytes of the file from the first to the last element of every piece; "run_bytes" of every "stride_bytes" when columns are cut.
void set_file_ranges(std::span<const ModelPlan> stage, size_t index, Json& place) {
  Json out = Json::array();
  for (const ModelPlan& rank : stage) {
    Json ranges = Json::array();
    const ParamLoad& load = rank.load.loads[index];
    for (const LoadPiece& piece : load.pieces) {
      const TensorInfo& tensor = *piece.tensor;
      const DiskRect rect = disk_rect(*load.param, piece);
      const int64_t stride = disk_stride(tensor), element = dtype_bytes(tensor.dtype);
      const int64_t first = static_cast<int64_t>(tensor.begin) + (rect.row * stride + rect.col) * element;
      ranges.push(range_json(first, ((rect.rows - 1) * stride + rect.cols) * element));
      if (rect.cols == stride) continue;
      place.set("run_bytes", rect.cols * element);
      place.set("stride_bytes", stride * element);
    }
    out.push(std::move(ranges));
  }
  place.set("file_ranges", std::move(out));
}

/// Collects parameters stage by stage.
class Parameters {
 public:
  Status add_stage(std::span<const ModelPlan> stage) {
    for (size_t i = 0; i < stage.front().load.loads.size(); ++i) {
      const Param& param = *stage.front().load.loads[i].param;
      const Sources sources = sources_of(stage, i);
      LAMINA_ASSIGN(Json place, place_json(stage, i, sources.fused));
      const auto [known, is_new] = index_.emplace(param.name, parameters_.size());
      if (is_new) {
        LAMINA_ASSIGN(Json parameter, parameter_json(param));
        parameter.set("places", Json::array());
        parameter.set("sources", sources.json);
        parameters_.push_back(std::move(parameter));
        total_ += param.on_disk_elements();
      }
      for (auto& [key, value] : parameters_[known->second].as_object()) {
        if (key != "places") continue;
        value.push(std::move(place));
        break;
      }
    }
    return {};
  }

  void set(Json& out) {
    out.set("parameter_total", total_);
    out.set("parameters", Json(std::move(parameters_)));
    out.set("slices", Json(std::move(slices_)));
  }

 private:
  static Result<Json> parameter_json(const Param& param) {
    Json out, on_disk = Json::array();
    for (size_t p = 0; p < param.parts.size(); ++p) on_disk.push(shape_json(param.on_disk_shape(static_cast<int>(p))));
    LAMINA_ASSIGN(const std::vector<int64_t> global, param.global_shape());
    LAMINA_ASSIGN(const std::vector<int64_t> local, param.local_shape());
    out.set("name", param.name);
    out.set("rule", rule_string(param));
    out.set("group", group_json(param));
    out.set("on_disk", std::move(on_disk));
    out.set("global", shape_json(global));
    out.set("local", shape_json(local));
    out.set("dtype", torch_dtype_name(param.store->storage_dtype()));
    out.set("format", param.store->describe());
    out.set("bytes", param.store->bytes());
    return out;
  }

  Result<Json> place_json(std::span<const ModelPlan> stage, size_t index, bool fused) {
    const Param& param = *stage.front().load.loads[index].param;
    LAMINA_ASSIGN(const std::vector<int64_t> local, param.local_shape());
    Json slices = slices_json(stage, index, fused);
    const auto [known, is_new] = slice_index_.emplace(slices.dump(), slices_.size());
    if (is_new) slices_.push_back(std::move(slices));
    Json out;
    out.set("stage", stage.front().topology.pp_rank(stage.front().rank));
    out.set("local", shape_json(local));
    set_bytes(stage, index, out);
    out.set("slices", known->second);
    if (stage.front().source->checkpoint) set_file_ranges(stage, index, out);
    return out;
  }

  Json::Array parameters_, slices_;
  std::map<std::string, size_t> index_, slice_index_;
  int64_t total_ = 0;
};

}  // namespace

Json shape_json(const std::vector<int64_t>& shape) {
  Json out = Json::array();
  for (const int64_t size : shape) out.push(Json(size));
  return out;
}

Json range_json(int64_t begin, int64_t count) { return Json(Json::Array{Json(begin), Json(begin + count)}); }

Status set_parameters(std::span<const ModelPlan> ranks, Json& out) {
  Parameters parameters;
  const auto tp = static_cast<size_t>(ranks.front().topology.tp_size);
  for (size_t begin = 0; begin < ranks.size(); begin += tp) LAMINA_TRY(parameters.add_stage(ranks.subspan(begin, tp)));
  parameters.set(out);
  return {};
}

}  // namespace lamina
