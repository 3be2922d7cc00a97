#pragma once
// Two-phase loading: names and shapes are audited against the file headers before any memory is reserved; then rows stream from the
// mapped files into the parameters' stores on all threads, and source pages are dropped as they are consumed.

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "checkpoint/safetensors.h"
#include "weights/name_map.h"
#include "weights/param.h"

namespace lamina {

/// The rows of a source that fill local rows of a parameter, all of its local columns; counted in elements of the matrix.
struct LoadPiece {
  const TensorInfo* tensor = nullptr;      // null in a dummy plan
  int part = 0;                            // of the parameter
  int64_t source_row = 0, source_col = 0;  // in `tensor`; in a dummy plan: in the part's own tensor
  int64_t rows = 0, cols = 0;              // cols is 1 for a vector
  int64_t local_row = 0;
};

/// Where a piece lies in its tensor, which counts as [n, 1] when it has one dimension or none.
struct DiskRect {
  int64_t row = 0, col = 0;
  int64_t rows = 0, cols = 0;
};
DiskRect disk_rect(const Param& param, const LoadPiece& piece);
/// What the store is given of it: that, or whole rows.
DiskRect source_rect(const Param& param, const LoadPiece& piece);
/// Elements from row to row of a tensor.
int64_t disk_stride(const TensorInfo& tensor);

struct ParamLoad {
  Param* param = nullptr;
  std::vector<LoadPiece> pieces;  // ordered by local_row; rows between and after them are padding
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
  std::vector<std::string> misshaped;   // "name: file has [a, b], the model needs [c, d]"
  std::vector<std::string> mistyped;    // "name: type F64 cannot be loaded here (allowed: ...)"
  std::vector<std::string> duplicate;   // "name (its place is taken by other)"
  std::vector<std::string> mixed;       // "layer: this part is plain, that is ...", whose parts must agree: ParamList::faults()

  /// The lists of faults by their names, what may be the reason of others first.
  struct List {
    const char* name;
    const std::vector<std::string>& tensors;
  };
  std::array<List, 6> faults() const;
  bool clean() const;
  /// One line that names the faults (the first ones and a count); only when !clean().
  std::string fault() const;
};

struct LoadPlan {
  ParamList* params = nullptr;   // the list that was planned; outlives the plan
  std::vector<ParamLoad> loads;  // in declaration order, without optional parameters that the checkpoint lacks
  AuditReport report;
  size_t bytes = 0;  // packed bytes of this rank
};

/// Every tensor of the checkpoint ends in one list of the report: loaded (it is a parameter, or a part of one, under its own name or
/// renamed), skipped (nothing owns it, and a rule of `names` or its having no elements says why), or a fault. Fixes the types of the
/// stores that have all of their tensors.
AuditReport audit(const Checkpoint& checkpoint, const ParamList& params, const NameMap& names);
enum class LoadScope {
  kWhole,  // the parameters are the whole model: a tensor that nothing owns needs a reason
  kPart,   // one pipeline stage: what other stages own, or nobody, is passed over (the whole model has been audited)
};
/// audit(), then where the rows of every parameter come from: a fused tensor is cut by the parts' sizes on disk. Fails (listing names)
/// unless the audit is clean; reserves nothing.
Result<LoadPlan> plan_load(const Checkpoint& checkpoint, ParamList& params, const NameMap& names, LoadScope scope = LoadScope::kWhole);
/// Like plan_load for `--load-format dummy`: stores of plain parameters are planned with `dtype`, others with the type of their made-up
/// tensors (ParamStore::dummy); optional parameters are left out. Fails on faults of the list.
Result<LoadPlan> plan_dummy(ParamList& params, DType dtype);

/// An error when a file has another size than when it was mapped: a read beyond the end of one that shrank would kill the process.
Status check_unchanged(const Checkpoint& checkpoint);
/// Gives back the pages of bytes that were read, and those that reading them mapped around them.
void drop_consumed(const MappedFile& file, uint64_t begin, uint64_t length);
/// An error, naming both numbers, when `needed` bytes of weights exceed what is available.
Status check_weights_fit(size_t needed, uint64_t available);

/// Bytes done and bytes in all (of the source), called now and then from the calling thread.
using LoadProgress = std::function<void(size_t done, size_t total)>;

/// Reserves and fills every store. `checkpoint` is not changed but its consumed pages are dropped. Peak memory: the packed weights and a
/// few megabytes a thread. Errors: less memory than the plan needs, or a file whose size changed since it was opened.
Status execute_load(const LoadPlan& plan, const Checkpoint& checkpoint, ThreadTeam& team, const LoadProgress& progress);
/// Seeded values: a pure function of parameter name, row and column on disk, so that ranks hold parts of one model. Plain ones are bf16,
/// deviation 0.027 around 0, or around 1 for vectors that are no biases (norm weights); others are bits as ParamStore::dummy says.
/// Gigabytes a second on each thread.
Status execute_dummy(const LoadPlan& plan, ThreadTeam& team);

}  // namespace lamina
