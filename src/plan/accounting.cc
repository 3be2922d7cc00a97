#include "plan/accounting.h"

#include <array>
#include <set>

#include "base/strings.h"

namespace lamina {
namespace {

/// Bytes on disk of an element of `part`.
int64_t source_bytes(const ParamLoad& load, const ModelSource& source, int part) {
  for (const LoadPiece& piece : load.pieces) {
    if (piece.part == part && piece.tensor != nullptr) return dtype_bytes(piece.tensor->dtype);
  }
  return dtype_bytes(source.dtype);
}

/// Elements of `part` that the ranks of a stage hold, each once. Shares of a cut are equal or disjoint.
int64_t distinct_elements(std::span<const ModelPlan> stage, size_t index, int part) {
  std::set<std::array<int64_t, 4>> shares;
  int64_t elements = 0;
  for (const ModelPlan& rank : stage) {
    for (const LoadPiece& piece : rank.load.loads[index].pieces) {
      if (piece.part != part) continue;
      const bool added = shares.insert({piece.source_row, piece.rows, piece.source_col, piece.cols}).second;
      if (added) elements += piece.rows * piece.cols;
    }
  }
  return elements;
}

/// The rank of the stage that holds rows of `part`: its file type is known there.
const ParamLoad& holder(std::span<const ModelPlan> stage, size_t index, int part) {
  for (const ModelPlan& rank : stage) {
    for (const LoadPiece& piece : rank.load.loads[index].pieces) {
      if (piece.part == part) return rank.load.loads[index];
    }
  }
  return stage.front().load.loads[index];
}

/// Adds parameter `index` of a stage; `first`: no earlier stage holds it.
Status add_parameter(std::span<const ModelPlan> stage, size_t index, bool first, Accounting& out) {
  const Param& param = *stage.front().load.loads[index].param;
  const int64_t kept = dtype_bytes(param.store->storage_dtype());
  int64_t held = 0;
  for (const ModelPlan& rank : stage) held += source_elements(rank.load.loads[index]);
  const int64_t whole = param.on_disk_elements();
  for (size_t p = 0; p < param.parts.size(); ++p) {
    const int part = static_cast<int>(p);
    int64_t wanted = 1;
    for (const int64_t extent : param.on_disk_shape(part)) wanted *= extent;
    const int64_t distinct = distinct_elements(stage, index, part);
    if (distinct != wanted) {
      return error(param.part_name(part), ": the ranks of a stage hold ", distinct, " of ", wanted, " elements");
    }
    if (!first) continue;
    const int64_t disk = source_bytes(holder(stage, index, part), *stage.front().source, part);
    out.checkpoint.elements += wanted;
    out.checkpoint.bytes += wanted * disk;
    out.widening += wanted * (kept - disk);
  }
  const int64_t copies = held - (first ? whole : 0);
  LAMINA_ASSIGN(const int64_t local, local_elements(param));
  const int64_t padding = local * static_cast<int64_t>(stage.size()) - held;
  out.replicas.elements += copies;
  out.replicas.bytes += copies * kept;
  out.vocabulary_padding.elements += padding;
  out.vocabulary_padding.bytes += padding * kept;
  return {};
}

}  // namespace

int64_t source_elements(const ParamLoad& load) {
  int64_t elements = 0;
  for (const LoadPiece& piece : load.pieces) elements += piece.rows * piece.cols;
  return elements;
}

Result<int64_t> local_elements(const Param& param) {
  LAMINA_ASSIGN(const std::vector<int64_t> shape, param.local_shape());
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

Result<Accounting> account(std::span<const ModelPlan> ranks) {
  Accounting out;
  const auto tp = static_cast<size_t>(ranks.front().topology.tp_size);
  std::set<std::string_view> seen;
  for (size_t begin = 0; begin < ranks.size(); begin += tp) {
    const std::span<const ModelPlan> stage = ranks.subspan(begin, tp);
    for (size_t i = 0; i < stage.front().load.loads.size(); ++i) {
      const bool first = seen.insert(stage.front().load.loads[i].param->name).second;
      LAMINA_TRY(add_parameter(stage, i, first, out));
    }
  }
  int64_t unpacked = 0;
  for (const ModelPlan& rank : ranks) {
    out.ranks.bytes += static_cast<int64_t>(rank.load.bytes);
    for (const ParamLoad& load : rank.load.loads) {
      LAMINA_ASSIGN(const int64_t elements, local_elements(*load.param));
      out.ranks.elements += elements;
      unpacked += elements * dtype_bytes(load.param->store->storage_dtype());
    }
  }
  out.packing = out.ranks.bytes - unpacked;
  return out;
}

}  // namespace lamina
