#include "weights/loader.h"

#include <algorithm>
#include <atomic>

#include "base/cpu.h"
#include "base/strings.h"
#include "weights/dummy.h"

namespace lamina {

namespace {

constexpr size_t kTaskBytes = size_t{4} << 20;

/// Rows that one thread fills: whole grains of one parameter.
struct Task {
  const ParamLoad* load = nullptr;
  int64_t begin = 0, end = 0;  // local rows
};

DType source_dtype(const Param& param, const LoadPiece& piece) {
  if (piece.tensor != nullptr) return piece.tensor->dtype;
  return param.is_plain() ? DType::kBF16 : param.store->dummy().dtype;
}

size_t source_bytes(const Param& param, const LoadPiece& piece) {
  const DiskRect rect = source_rect(param, piece);
  return static_cast<size_t>(rect.rows * rect.cols * dtype_bytes(source_dtype(param, piece)));
}

/// Local rows that one task of `load` fills. A tensor whose rows are not the matrix's is read as a whole: a run of its columns is spread
/// over all of its pages.
int64_t task_rows(const ParamLoad& load) {
  const LoadPiece& last = load.pieces.back();
  if (load.param->dims().front().axis != DiskDim::Axis::kRows) return last.local_row + last.rows;
  const int64_t grain = load.param->store->row_grain();
  const int64_t row_bytes = std::max<int64_t>(1, static_cast<int64_t>(source_bytes(*load.param, last)) / last.rows);
  return std::max<int64_t>(1, static_cast<int64_t>(kTaskBytes) / row_bytes / grain) * grain;
}

/// The part of `piece` that falls into the task's rows; rows == 0 when none does.
LoadPiece clip(const LoadPiece& piece, const Task& task) {
  LoadPiece out = piece;
  const int64_t begin = std::max(piece.local_row, task.begin);
  const int64_t end = std::min(piece.local_row + piece.rows, task.end);
  out.rows = std::max<int64_t>(0, end - begin);
  out.source_row += begin - piece.local_row;
  out.local_row = begin;
  return out;
}

template <class F>
void for_pieces(const Task& task, F f) {
  for (const LoadPiece& whole : task.load->pieces) {
    const LoadPiece piece = clip(whole, task);
    if (piece.rows > 0) f(piece);
  }
}

/// Tasks of the stores that go first, or of the others, in the order of their parameters' first bytes in the files.
std::vector<Task> cut_tasks(const LoadPlan& plan, bool first) {
  std::vector<const ParamLoad*> loads;
  for (const ParamLoad& load : plan.loads) {
    if (!load.pieces.empty() && load.param->store->goes_first() == first) loads.push_back(&load);
  }
  std::stable_sort(loads.begin(), loads.end(), [](const ParamLoad* a, const ParamLoad* b) {
    const TensorInfo* left = a->pieces.front().tensor;
    const TensorInfo* right = b->pieces.front().tensor;
    if (left == nullptr || right == nullptr) return false;
    return std::pair(left->file, left->begin) < std::pair(right->file, right->begin);
  });
  std::vector<Task> tasks;
  for (const ParamLoad* load : loads) {
    const LoadPiece& last = load->pieces.back();
    const int64_t rows = last.local_row + last.rows;
    const int64_t step = task_rows(*load);
    for (int64_t row = 0; row < rows; row += step) tasks.push_back({load, row, std::min(rows, row + step)});
  }
  return tasks;
}

Status reserve(const LoadPlan& plan) {
  LAMINA_TRY(check_weights_fit(plan.bytes, available_memory()));
  return plan.params->reserve();
}

/// Moves rows from the mapped files into stores.
class Reader {
 public:
  Reader(const Checkpoint& checkpoint, const std::vector<Task>& tasks) : checkpoint_(checkpoint), tasks_(tasks) {}

  /// Fills task `index` and lets the system read `ahead` tasks further on; the bytes it took.
  size_t fill(size_t index, size_t ahead) const {
    if (index + ahead < tasks_.size()) {
      for_pieces(tasks_[index + ahead], [&](const LoadPiece& piece) {
        const Range range = range_of(*piece.tensor, source_rect(*tasks_[index + ahead].load->param, piece));
        checkpoint_.file(piece.tensor->file).will_need(range.begin, range.length);
      });
    }
    size_t bytes = 0;
    for_pieces(tasks_[index], [&](const LoadPiece& piece) {
      put(*tasks_[index].load->param, piece);
      bytes += source_bytes(*tasks_[index].load->param, piece);
    });
    return bytes;
  }

 private:
  struct Range {
    uint64_t begin, length;
  };

  /// Bytes of the file from the first to the last element of a rectangle.
  static Range range_of(const TensorInfo& tensor, const DiskRect& rect) {
    const int64_t stride = disk_stride(tensor);
    const int64_t first = rect.row * stride + rect.col;
    const int64_t count = (rect.rows - 1) * stride + rect.cols;
    const int64_t element = dtype_bytes(tensor.dtype);
    return {tensor.begin + static_cast<uint64_t>(first * element), static_cast<uint64_t>(count * element)};
  }

  void put(Param& param, const LoadPiece& piece) const {
    const TensorInfo& tensor = *piece.tensor;
    const MappedFile& file = checkpoint_.file(tensor.file);
    const DiskRect rect = source_rect(param, piece);
    const Range range = range_of(tensor, rect);
    LAMINA_CHECK(range.begin + range.length <= tensor.end, "rows outside the tensor");
    param.store->put(piece.local_row, {.data = file.bytes().data() + range.begin,
                                       .dtype = tensor.dtype,
                                       .rows = rect.rows,
                                       .cols = rect.cols,
                                       .stride = disk_stride(tensor),
                                       .part = piece.part,
                                       .count = piece.rows,
                                       .first_row = piece.source_row,
                                       .first_col = piece.source_col,
                                       .tensor = tensor.name});
    drop_consumed(file, range.begin, range.length);
  }

  const Checkpoint& checkpoint_;
  const std::vector<Task>& tasks_;
};

/// Counts what is done; the calling thread tells `progress`.
class Meter {
 public:
  Meter(const LoadPlan& plan, const LoadProgress& progress) : progress_(progress) {
    for (const ParamLoad& load : plan.loads) {
      for (const LoadPiece& piece : load.pieces) total_ += source_bytes(*load.param, piece);
    }
  }
  void add(size_t bytes, int thread) {
    done_ += bytes;
    if (thread == 0 && progress_) progress_(done_, total_);
  }
  void end() const {
    if (progress_) progress_(total_, total_);
  }

 private:
  const LoadProgress& progress_;
  size_t total_ = 0;
  std::atomic<size_t> done_ = 0;
};

/// Runs fill(tasks, task index) -> bytes on all threads, first for the stores that go first; each half ends with finish().
template <class Fill>
Status run_tasks(const LoadPlan& plan, ThreadTeam& team, const LoadProgress& progress, Fill fill) {
  Meter meter(plan, progress);
  for (const bool first : {true, false}) {
    const std::vector<Task> tasks = cut_tasks(plan, first);
    team.parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) meter.add(fill(tasks, static_cast<size_t>(i)), thread);
    });
    for (const ParamLoad& load : plan.loads) {
      if (load.param->store->goes_first() == first) LAMINA_TRY(load.param->store->finish());
    }
  }
  meter.end();
  return {};
}

}  // namespace

DiskRect disk_rect(const Param& param, const LoadPiece& piece) {
  DiskRange ranges[2] = {{0, 1}, {0, 1}};
  size_t i = 0;
  for (const DiskDim& dim : param.dims()) {
    const bool by_rows = dim.axis == DiskDim::Axis::kRows;
    ranges[i++] = dim.units(by_rows ? piece.source_row : piece.source_col, by_rows ? piece.rows : piece.cols);
  }
  return {.row = ranges[0].begin, .col = ranges[1].begin, .rows = ranges[0].count, .cols = ranges[1].count};
}

DiskRect source_rect(const Param& param, const LoadPiece& piece) {
  DiskRect rect = disk_rect(param, piece);
  if (!param.store->reads_whole_rows()) return rect;
  rect.col = 0;
  rect.cols = param.cols.on_disk().value;
  return rect;
}

int64_t disk_stride(const TensorInfo& tensor) { return tensor.shape.size() < 2 ? 1 : tensor.shape[1]; }

void drop_consumed(const MappedFile& file, uint64_t begin, uint64_t length) {
  // A page fault maps up to this much around itself (Linux fault_around_bytes), also what a neighbour has dropped already.
  constexpr uint64_t kFaultAround = uint64_t{64} << 10;
  const uint64_t from = begin - std::min(begin, kFaultAround);
  file.drop(from, begin + length + kFaultAround - from);
}

Status check_unchanged(const Checkpoint& checkpoint) {
  for (int i = 0; i < checkpoint.file_count(); ++i) {
    LAMINA_ASSIGN(const uint64_t size, file_size(checkpoint.file_path(i)));
    const size_t mapped = checkpoint.file(i).bytes().size();
    if (size != mapped) return error(checkpoint.file_path(i), " changed while it was open: it had ", mapped, " bytes and has ", size);
  }
  return {};
}

Status check_weights_fit(size_t needed, uint64_t available) {
  if (needed <= available) return {};
  return error("the weights need ", needed, " bytes of memory, ", available, " are available");
}

Status execute_load(const LoadPlan& plan, const Checkpoint& checkpoint, ThreadTeam& team, const LoadProgress& progress) {
  LAMINA_TRY(check_unchanged(checkpoint));
  LAMINA_TRY(reserve(plan));
  const auto ahead = static_cast<size_t>(team.size());
  return run_tasks(plan, team, progress,
                   [&](const std::vector<Task>& tasks, size_t i) { return Reader(checkpoint, tasks).fill(i, ahead); });
}

Status execute_dummy(const LoadPlan& plan, ThreadTeam& team) {
  LAMINA_TRY(reserve(plan));
  return run_tasks(plan, team, {}, [&](const std::vector<Task>& tasks, size_t i) {
    size_t bytes = 0;
    for_pieces(tasks[i], [&](const LoadPiece& piece) {
      put_dummy(*tasks[i].load->param, piece);
      bytes += source_bytes(*tasks[i].load->param, piece);
    });
    return bytes;
  });
}

}  // namespace lamina
