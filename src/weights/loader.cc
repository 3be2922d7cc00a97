#include "weights/loader.h"

#include <algorithm>
#include <atomic>

#include "base/cpu.h"
#include "base/strings.h"
#include "weights/dummy.h"

namespace lamina {

namespace {

constexpr size_t kTaskBytes = size_t{4} << 20;
// A page fault maps up to this much around itself (Linux fault_around_bytes), also what a neighbour has dropped already.
constexpr uint64_t kFaultAround = uint64_t{64} << 10;

/// Rows that one thread fills: whole grains of one parameter.
struct Task {
  const ParamLoad* load = nullptr;
  int64_t begin = 0, end = 0;  // local rows
};

int64_t row_bytes(const LoadPiece& piece) { return piece.cols * (piece.tensor == nullptr ? 2 : dtype_bytes(piece.tensor->dtype)); }

size_t source_bytes(const LoadPiece& piece) { return static_cast<size_t>(piece.rows * row_bytes(piece)); }

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

/// Tasks in the order of their parameters' first bytes in the files.
std::vector<Task> cut_tasks(const LoadPlan& plan) {
  std::vector<const ParamLoad*> loads;
  for (const ParamLoad& load : plan.loads) {
    if (!load.pieces.empty()) loads.push_back(&load);
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
    const int64_t grain = load->param->store->row_grain();
    const int64_t grains = static_cast<int64_t>(kTaskBytes) / std::max<int64_t>(1, row_bytes(last) * grain);
    const int64_t step = std::max<int64_t>(1, grains) * grain;
    for (int64_t row = 0; row < rows; row += step) tasks.push_back({load, row, std::min(rows, row + step)});
  }
  return tasks;
}

Status reserve(const LoadPlan& plan) {
  LAMINA_TRY(check_weights_fit(plan.bytes, available_memory()));
  return plan.params->reserve();
}

/// A read beyond the end of a file that shrank would kill the process.
Status check_unchanged(const Checkpoint& checkpoint) {
  for (int i = 0; i < checkpoint.file_count(); ++i) {
    LAMINA_ASSIGN(const uint64_t size, file_size(checkpoint.file_path(i)));
    const size_t mapped = checkpoint.file(i).bytes().size();
    if (size != mapped) return error(checkpoint.file_path(i), " changed while it was open: it had ", mapped, " bytes and has ", size);
  }
  return {};
}

/// Moves rows from the mapped files into stores.
class Reader {
 public:
  Reader(const Checkpoint& checkpoint, const std::vector<Task>& tasks) : checkpoint_(checkpoint), tasks_(tasks) {}

  /// Fills task `index` and lets the system read `ahead` tasks further on; the bytes it took.
  size_t fill(size_t index, size_t ahead) const {
    if (index + ahead < tasks_.size()) {
      for_pieces(tasks_[index + ahead], [&](const LoadPiece& piece) {
        const Range range = range_of(piece);
        checkpoint_.file(piece.tensor->file).will_need(range.begin, range.length);
      });
    }
    size_t bytes = 0;
    for_pieces(tasks_[index], [&](const LoadPiece& piece) {
      put(*tasks_[index].load->param, piece);
      bytes += source_bytes(piece);
    });
    return bytes;
  }

 private:
  struct Range {
    uint64_t begin, length;
  };

  static int64_t stride(const TensorInfo& tensor) { return tensor.shape.size() < 2 ? 1 : tensor.shape[1]; }

  /// Bytes of the file from the first to the last element of a piece.
  static Range range_of(const LoadPiece& piece) {
    const TensorInfo& tensor = *piece.tensor;
    const int64_t first = piece.source_row * stride(tensor) + piece.source_col;
    const int64_t count = (piece.rows - 1) * stride(tensor) + piece.cols;
    const int64_t element = dtype_bytes(tensor.dtype);
    return {tensor.begin + static_cast<uint64_t>(first * element), static_cast<uint64_t>(count * element)};
  }

  void put(Param& param, const LoadPiece& piece) const {
    const TensorInfo& tensor = *piece.tensor;
    const MappedFile& file = checkpoint_.file(tensor.file);
    const Range range = range_of(piece);
    LAMINA_CHECK(range.begin + range.length <= tensor.end, "rows outside the tensor");
    param.store->put(piece.local_row, {file.bytes().data() + range.begin, tensor.dtype, piece.rows, piece.cols, stride(tensor)});
    const uint64_t begin = range.begin - std::min(range.begin, kFaultAround);
    file.drop(begin, range.begin + range.length + kFaultAround - begin);
  }

  const Checkpoint& checkpoint_;
  const std::vector<Task>& tasks_;
};

/// Runs fill(task index) -> bytes on all threads; thread 0 tells `progress`.
template <class Fill>
void run_tasks(const LoadPlan& plan, const std::vector<Task>& tasks, ThreadTeam& team, const LoadProgress& progress, Fill fill) {
  size_t total = 0;
  for (const ParamLoad& load : plan.loads) {
    for (const LoadPiece& piece : load.pieces) total += source_bytes(piece);
  }
  std::atomic<size_t> done = 0;
  team.parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      done += fill(static_cast<size_t>(i));
      if (thread == 0 && progress) progress(done, total);
    }
  });
  if (progress) progress(total, total);
}

}  // namespace

Status check_weights_fit(size_t needed, uint64_t available) {
  if (needed <= available) return {};
  return error("the weights need ", needed, " bytes of memory, ", available, " are available");
}

Status execute_load(const LoadPlan& plan, const Checkpoint& checkpoint, ThreadTeam& team, const LoadProgress& progress) {
  LAMINA_TRY(check_unchanged(checkpoint));
  LAMINA_TRY(reserve(plan));
  const std::vector<Task> tasks = cut_tasks(plan);
  const Reader reader(checkpoint, tasks);
  const auto ahead = static_cast<size_t>(team.size());
  run_tasks(plan, tasks, team, progress, [&](size_t i) { return reader.fill(i, ahead); });
  return {};
}

Status execute_dummy(const LoadPlan& plan, ThreadTeam& team) {
  LAMINA_TRY(reserve(plan));
  const std::vector<Task> tasks = cut_tasks(plan);
  run_tasks(plan, tasks, team, {}, [&](size_t i) {
    size_t bytes = 0;
    for_pieces(tasks[i], [&](const LoadPiece& piece) {
      put_dummy(*tasks[i].load->param, piece);
      bytes += source_bytes(piece);
    });
    return bytes;
  });
  return {};
}

}  // namespace lamina
