#pragma once
// Two-phase loading: names and shapes are audited against the file headers before any memory is reserved; then rows stream from the
// mapped files into the parameters' stores on all threads, and source pages are dropped as they are consumed.

#include <functional>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "checkpoint/safetensors.h"
#include "weights/name_map.h"
#include "weights/param.h"

namespace lamina {

/// One rectangle of a source tensor that fills local rows of a parameter.
struct LoadPiece {
  const TensorInfo* tensor = nullptr;
  int64_t source_row = 0, source_col = 0;
  int64_t rows = 0, cols = 0;
  int64_t local_row = 0;
};

struct ParamLoad {
  Param* param = nullptr;
  std::vector<LoadPiece> pieces;  // ordered by local_row
};

/// What became of every tensor and every parameter.
struct AuditReport {
  struct Skipped {
    std::string tensor;
    std::string reason;
  };
  int64_t loaded_tensors = 0;
  std::vector<Skipped> skipped;
  std::vector<std::string> missing;     // parameters (or parts) without a tensor
  std::vector<std::string> unexpected;  // tensors that nothing owns
  std::vector<std::string> duplicate;   // slots with two sources
  std::vector<std::string> misshaped;   // "name: file has [a, b], the model needs [c, d]"

  bool clean() const { return missing.empty() && unexpected.empty() && duplicate.empty() && misshaped.empty(); }
  /// One line that names the faults (the first ones and a count); only when !clean().
  std::string fault() const;
};

struct LoadPlan {
  std::vector<ParamLoad> loads;
  AuditReport report;
  size_t bytes = 0;  // packed bytes of this rank
};

/// Matches every tensor of the checkpoint with the parameters. Fails (listing names) unless the audit is clean; reserves nothing.
Result<LoadPlan> plan_load(const Checkpoint& checkpoint, const ParamList& params, const NameMap& names);
/// Like plan_load for `--load-format dummy`: every store is planned with `dtype`.
Result<LoadPlan> plan_dummy(const ParamList& params, DType dtype);

/// Bytes done and bytes in all, called now and then from one thread.
using LoadProgress = std::function<void(size_t done, size_t total)>;

/// Reserves and fills every store. `checkpoint` is not changed but its consumed pages are dropped.
Status execute_load(const LoadPlan& plan, const Checkpoint& checkpoint, ThreadTeam& team, const LoadProgress& progress);
/// Seeded values: a pure function of parameter name, row and column; norm weights near 1, matrices of deviation about 0.03.
Status execute_dummy(const LoadPlan& plan, ThreadTeam& team);

}  // namespace lamina
