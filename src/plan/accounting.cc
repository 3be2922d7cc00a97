#include "plan/accounting.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "base/strings.h"

namespace lamina {
namespace {

/// Bytes on disk of an element of `part`, and of one in memory. What is packed counts as it is on disk: its coding in memory is packing.
struct ElementBytes {
  int64_t disk, kept;
};

ElementBytes element_bytes(std::span<const ModelPlan> stage, size_t index, int part) {
  const Param& param = *stage.front().load.loads[index].param;
  int64_t disk = dtype_bytes(param.is_plain() ? stage.front().source->dtype : param.store->dummy().dtype);
  for (const ModelPlan& rank : stage) {
    for (const LoadPiece& piece : rank.load.loads[index].pieces) {
      if (piece.part == part && piece.tensor != nullptr) disk = dtype_bytes(piece.tensor->dtype);
    }
  }
  return {disk, param.is_plain() ? dtype_bytes(param.store->storage_dtype()) : disk};
}

int64_t area(const DiskRect& rect) { return rect.rows * rect.cols; }

/// Elements of the union of `rects`, which may overlap where blocks reach over the edge of a share.
int64_t union_elements(const std::vector<DiskRect>& rects) {
  std::set<int64_t> rows, cols;
  for (const DiskRect& r : rects) {
    rows.insert({r.row, r.row + r.rows});
    cols.insert({r.col, r.col + r.cols});
  }
  int64_t elements = 0;
  for (auto y = rows.begin(); y != rows.end() && std::next(y) != rows.end(); ++y) {
    for (auto x = cols.begin(); x != cols.end() && std::next(x) != cols.end(); ++x) {
      const bool held = std::any_of(rects.begin(), rects.end(), [&](const DiskRect& r) {
        return r.row <= *y && *y < r.row + r.rows && r.col <= *x && *x < r.col + r.cols;
      });
      if (held) elements += (*std::next(y) - *y) * (*std::next(x) - *x);
    }
  }
  return elements;
}

/// Elements of `part` that the ranks of a stage hold, each once.
int64_t distinct_elements(std::span<const ModelPlan> stage, size_t index, int part) {
  std::set<std::array<int64_t, 4>> shares;
  std::vector<DiskRect> rects;
  for (const ModelPlan& rank : stage) {
    const ParamLoad& load = rank.load.loads[index];
    for (const LoadPiece& piece : load.pieces) {
      const DiskRect rect = disk_rect(*load.param, piece);
      if (piece.part == part && shares.insert({rect.row, rect.rows, rect.col, rect.cols}).second) rects.push_back(rect);
    }
  }
  if (!stage.front().load.loads[index].param->is_plain()) return union_elements(rects);
  int64_t elements = 0;  // shares of a plain parameter are equal or disjoint
  for (const DiskRect& rect : rects) elements += area(rect);
  return elements;
}

int64_t source_elements(const ParamLoad& load, int part) {
  int64_t elements = 0;
  for (const LoadPiece& piece : load.pieces) {
    if (piece.part == part) elements += area(disk_rect(*load.param, piece));
  }
  return elements;
}

Result<int64_t> local_elements(const Param& param) {
  LAMINA_ASSIGN(const std::vector<int64_t> shape, param.local_shape());
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

/// Adds parameter `index` of a stage; `first`: no earlier stage holds it.
Status add_parameter(std::span<const ModelPlan> stage, size_t index, bool first, Accounting& out) {
  const Param& param = *stage.front().load.loads[index].param;
  int64_t padding = 0, kept = 0;
  for (const ModelPlan& rank : stage) {
    LAMINA_ASSIGN(const int64_t local, local_elements(*rank.load.loads[index].param));
    padding += local;
  }
  out.ranks.elements += padding;
  for (int part = 0; part < static_cast<int>(param.parts.size()); ++part) {
    int64_t wanted = 1, held = 0;
    for (const int64_t extent : param.on_disk_shape(part)) wanted *= extent;
    const int64_t distinct = distinct_elements(stage, index, part);
    if (distinct != wanted) return error(param.part_name(part), ": the ranks of a stage hold ", distinct, " of ", wanted, " elements");
    for (const ModelPlan& rank : stage) held += source_elements(rank.load.loads[index], part);
    const ElementBytes bytes = element_bytes(stage, index, part);
    kept = bytes.kept;
    padding -= held;
    if (first) {
      out.checkpoint.elements += wanted;
      out.checkpoint.bytes += wanted * bytes.disk;
      out.widening += wanted * (bytes.kept - bytes.disk);
      held -= wanted;
    }
    out.replicas.elements += held;
    out.replicas.bytes += held * bytes.kept;
  }
  out.vocabulary_padding.elements += padding;
  out.vocabulary_padding.bytes += padding * kept;
  return {};
}

}  // namespace

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
  for (const ModelPlan& rank : ranks) out.ranks.bytes += static_cast<int64_t>(rank.load.bytes);
  out.packing = out.ranks.bytes - out.checkpoint.bytes - out.widening - out.replicas.bytes - out.vocabulary_padding.bytes;
  return out;
}

}  // namespace lamina
