#include "weights/export.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/strings.h"
#include "weights/format/quantising.h"
#include "weights/param.h"

namespace lamina {

namespace {

using Layout = QuantScheme::Layout;

constexpr int64_t kCopyBytes = int64_t{4} << 20;
constexpr int64_t kTaskElements = int64_t{1} << 18;
constexpr std::string_view kWeight = ".weight";

std::span<const uint8_t> bytes_of(const auto& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(values[0])};
}

/// Eight codes a word, the first in the lowest bits. `cols` is a multiple of 8.
std::vector<uint32_t> pack_nibbles(const std::vector<uint8_t>& codes) {
  std::vector<uint32_t> words(codes.size() / 8);
  for (size_t i = 0; i < codes.size(); ++i) words[i / 8] |= static_cast<uint32_t>(codes[i]) << (i % 8 * 4);
  return words;
}

}  // namespace

TensorExport::TensorExport(const Checkpoint& checkpoint, const QuantScheme& scheme, const kernels::Kernels& kernels)
    : checkpoint_(checkpoint), scheme_(scheme), kernels_(kernels) {}

void TensorExport::copy(const TensorInfo& source) {
  jobs_.push_back({.source = &source, .first = tensors_.size()});
  tensors_.push_back({source.name, source.dtype, source.shape});
}

Status TensorExport::quantise(const TensorInfo& source) {
  LAMINA_CHECK(source.shape.size() == 2 && source.name.ends_with(kWeight), "a matrix of weights");
  LAMINA_TRY(check_float_sources({source.dtype}, source.name));
  const int64_t rows = source.shape[0], cols = source.shape[1], group = scheme_.scale_cols;
  if (group > 0 && cols % group != 0) {
    return error(source.name, " has ", cols, " inputs, which groups of ", group,
                 " do not divide: no reader of the layout has short groups (another --group-size, or --ignore ",
                 source.name.substr(0, source.name.size() - kWeight.size()), ")");
  }
  jobs_.push_back({.source = &source, .first = tensors_.size(), .quantised = true});
  const std::string scale = Param::with_leaf(source.name, "weight_scale");
  if (scheme_.layout != Layout::kPacked) {
    tensors_.push_back({source.name, scheme_.layout == Layout::kFp8 ? DType::kF8E4M3 : DType::kI8, source.shape});
    tensors_.push_back({scale, DType::kF32, {rows, 1}});
    return {};
  }
  tensors_.push_back({Param::with_leaf(source.name, "weight_packed"), DType::kI32, {rows, cols / 8}});
  tensors_.push_back({scale, DType::kBF16, {rows, cols / group}});
  tensors_.push_back({Param::with_leaf(source.name, "weight_shape"), DType::kI64, {2}});
  return {};
}

std::vector<TensorExport::Task> TensorExport::cut_tasks() const {
  std::vector<Task> tasks;
  for (const Job& job : jobs_) {
    const int64_t size = job.quantised ? job.source->shape[0] : static_cast<int64_t>(job.source->bytes());
    const int64_t step = job.quantised ? std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, job.source->shape[1])) : kCopyBytes;
    for (int64_t begin = 0; begin < size; begin += step) tasks.push_back({&job, begin, std::min(size, begin + step)});
  }
  return tasks;
}

TensorExport::Range TensorExport::source_range(const Task& task) {
  const TensorInfo& source = *task.job->source;
  const auto unit = task.job->quantised ? static_cast<size_t>(source.shape[1] * dtype_bytes(source.dtype)) : 1;
  return {static_cast<size_t>(task.begin) * unit, static_cast<size_t>(task.end - task.begin) * unit};
}

Status TensorExport::copy_bytes(const Task& task, SafetensorsWriter& writer) const {
  const Range range = source_range(task);
  return writer.write(task.job->first, range.begin, checkpoint_.data(*task.job->source).subspan(range.begin, range.length));
}

Status TensorExport::quantise_rows(const Task& task, SafetensorsWriter& writer) const {
  const TensorInfo& source = *task.job->source;
  const int64_t rows = task.end - task.begin, cols = source.shape[1];
  const kernels::WeightQuant rule = quantising_rule(scheme_);
  const auto row = static_cast<size_t>(task.begin);
  const Range range = source_range(task);
  const SourceRows from{.data = checkpoint_.data(source).data() + range.begin,
                        .dtype = source.dtype,
                        .rows = rows,
                        .cols = cols,
                        .stride = cols,
                        .count = rows};
  RowQuantiser made(kernels_, rule, rows, cols);
  if (const std::optional<int64_t> bad = made.quantise(from, 0, rows, 0)) {
    return error(source.name, ": row ", task.begin + *bad, " holds NaN or an infinity");
  }
  const size_t first = task.job->first;
  if (rule.scale_dtype == DType::kF32) {
    LAMINA_TRY(writer.write(first, row * static_cast<size_t>(cols), made.codes()));
    return writer.write(first + 1, row * sizeof(float), bytes_of(made.scales()));
  }
  std::vector<uint16_t> short_scales(made.scales().size());
  std::ranges::transform(made.scales(), short_scales.begin(), f32_to_bf16);
  LAMINA_TRY(writer.write(first, row * static_cast<size_t>(cols) / 2, bytes_of(pack_nibbles(made.codes()))));
  LAMINA_TRY(writer.write(first + 1, row * static_cast<size_t>(rule.groups(cols)) * 2, bytes_of(short_scales)));
  return writer.write(first + 2, 0, bytes_of(source.shape));
}

Status TensorExport::write(SafetensorsWriter& writer, ThreadTeam& team, const LoadProgress& progress) const {
  LAMINA_TRY(check_unchanged(checkpoint_));
  const std::vector<Task> tasks = cut_tasks();
  size_t total = 0;
  for (const Task& task : tasks) total += source_range(task).length;
  std::atomic<size_t> done = 0, faulty = tasks.size();  // the first task that failed: every run tells the same error
  std::mutex mutex;
  Status status;
  team.parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end, int thread) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end) && i < faulty; ++i) {
      const Task& task = tasks[i];
      Status written = task.job->quantised ? quantise_rows(task, writer) : copy_bytes(task, writer);
      const Range range = source_range(task);
      drop_consumed(checkpoint_.file(task.job->source->file), task.job->source->begin + range.begin, range.length);
      done += range.length;
      if (thread == 0 && progress) progress(done, total);
      const std::lock_guard lock(mutex);
      if (!written.ok() && i < faulty) status = std::move(written), faulty = i;
    }
  });
  if (status.ok() && progress) progress(total, total);
  return status;
}

}  // namespace lamina
