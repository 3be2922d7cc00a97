#pragma once
// A plain checkpoint's tensors written anew: matrices as codes and scales in the layout of compressed-tensors, everything else as it is.

#include <vector>

#include "base/thread_team.h"
#include "checkpoint/quant_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "kernels/kernels.h"
#include "weights/loader.h"

namespace lamina {

/// Collects what is to be written, then writes it. The checkpoint and the kernels outlive it.
class TensorExport {
 public:
  /// `scheme`: one that compressed_tensors_block() writes.
  TensorExport(const Checkpoint& checkpoint, const QuantScheme& scheme, const kernels::Kernels& kernels);

  /// The tensor as it is.
  void copy(const TensorInfo& source);
  /// A matrix [N, K] of F32, F16 or BF16 by the name "M.weight" (CHECK) becomes
  ///   int8, fp8  M.weight [N, K], M.weight_scale [N, 1] in F32
  ///   packed     M.weight_packed [N, K / 8] in I32, M.weight_scale [N, K / group] in BF16, M.weight_shape [2]
  /// Refuses inputs that are no multiple of the group, which no reader of that layout divides.
  Status quantise(const TensorInfo& source);

  /// In the order of the calls.
  const std::vector<NewTensor>& tensors() const { return tensors_; }
  /// `writer` was made for tensors(). Memory: a few megabytes a thread; pages of the source are dropped as they are consumed. Refuses NaN
  /// and infinite weights by name. Progress counts bytes of the source.
  Status write(SafetensorsWriter& writer, ThreadTeam& team, const LoadProgress& progress) const;

 private:
  struct Job {
    const TensorInfo* source = nullptr;
    size_t first = 0;  // of its tensors in tensors_: the copy, or codes, scales and perhaps shape
    bool quantised = false;
  };
  struct Task {
    const Job* job = nullptr;
    int64_t begin = 0, end = 0;  // rows of a matrix, bytes of a copy
  };
  struct Range {
    size_t begin = 0, length = 0;  // bytes of the source
  };
  static Range source_range(const Task& task);
  std::vector<Task> cut_tasks() const;
  Status copy_bytes(const Task& task, SafetensorsWriter& writer) const;
  Status quantise_rows(const Task& task, SafetensorsWriter& writer) const;

  const Checkpoint& checkpoint_;
  QuantScheme scheme_;
  const kernels::Kernels& kernels_;
  std::vector<Job> jobs_;
  std::vector<NewTensor> tensors_;
};

}  // namespace lamina
