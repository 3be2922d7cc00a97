#pragma once
// `lamina quantize`: a plain checkpoint folder written anew as a quantised one.

#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "checkpoint/safetensors_writer.h"
#include "plan/model_plan.h"

namespace lamina {

struct QuantizeOptions {
  PlanOptions plan;  // model; quantization, with its group size and ignored modules; one rank
  std::string out;   // a folder that does not exist or is empty
  uint64_t max_shard_bytes = SafetensorsWriter::kShardBytes;
};

struct QuantizeReport {
  int64_t quantised = 0, copied = 0;           // tensors of the source
  uint64_t bytes_before = 0, bytes_after = 0;  // of tensors
  std::vector<std::string> left_out;           // tensors and subfolders that were not copied
};

/// Writes a compressed-tensors checkpoint that, loaded, gives the bits of `--quantization` on the original. Names of tensors stay those of
/// the source, fused ones too; what no layer multiplies by is copied byte for byte, and so is every file of the folder that holds no
/// weights. config.json comes last: without it nothing loads. After an error nothing is left of what was written. Refuses a checkpoint that
/// is quantised or does not fit its model, weights that are not finite, and an OUT that holds anything.
Result<QuantizeReport> quantize_checkpoint(const QuantizeOptions& options, ThreadTeam& team, const LoadProgress& progress);

}  // namespace lamina
