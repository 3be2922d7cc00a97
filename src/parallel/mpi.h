#pragma once
// Ranks as MPI processes. The MPI library is loaded only when the process was started by `mpirun`: it lies in a library of its own
// (liblamina_mpi.so, beside the program; LAMINA_MPI_LIBRARY names another), found by dlopen.

#include <memory>

#include "base/result.h"
#include "parallel/topology.h"

namespace lamina {

/// This process among those that mpirun started. Virtual seam: implemented by liblamina_mpi.so. All calls that communicate come from one
/// thread at a time.
///
/// After a fault the process destroys this object, which tells the others the reason, and leaves by _Exit(1): MPI's own end would wait for
/// the dead. mpirun sends SIGTERM to the others when a process dies: whoever drains on SIGTERM looks at RankFault a moment later first.
class ProcessWorld {
 public:
  virtual ~ProcessWorld() = default;
  virtual int size() const = 0;
  virtual int rank() const = 0;
  /// Processes of this machine: they share its memory.
  virtual int local_size() const = 0;
  /// Those of them, this one included, that share this one's CPUs: 1 when mpirun bound each process to CPUs of its own.
  virtual int cpu_sharers() const = 0;
  /// Which of them this one is, by rank.
  virtual int cpu_sharer_index() const = 0;
  /// The communicator of a group, as ParallelGroups::Connect; this object outlives it.
  /// Every process connects its groups in the same order (that of ParallelGroups::connected).
  virtual std::unique_ptr<Communicator> connect(std::string_view name, const std::vector<int>& members, int index) = 0;
  /// All processes agree on a value computed from theirs; used at the start (the least number of KV pages).
  virtual int64_t all_min(int64_t value) = 0;
  /// Refused, naming both, when a process has another `description` (build, ISA, dtype, model) than rank 0.
  virtual Status all_agree(std::string_view description) = 0;

  // Plans go from rank 0 to all, results back to rank 0; both are bytes of any length up to 1 GiB, a plan is not empty.
  virtual void send_plan(std::span<const std::byte> bytes) = 0;  // rank 0
  /// Waits without a deadline (a server may be idle for hours), parked; false when the world ended or has a fault.
  virtual bool receive_plan(std::vector<std::byte>& bytes) = 0;    // others
  virtual void send_result(std::span<const std::byte> bytes) = 0;  // others, to rank 0
  /// Whether a result of `from` is there; then it is in `bytes`. Does not wait.
  virtual bool try_receive_result(int from, std::vector<std::byte>& bytes) = 0;  // rank 0
  /// Orderly end of all processes: rank 0 tells the others (receive_plan then returns false), and all finalize.
  virtual void finish() = 0;
};

/// Whether this process was started by mpirun (with more than one process).
bool under_mpirun();
/// Whether mpirun started this process as a rank other than 0: it computes and speaks to nobody but the other ranks.
bool is_worker_process();
/// Loads the library, initialises MPI and opens the liveness links: a process that dies raises `fault` on all others within a second.
/// Errors: the library or MPI is missing (naming the Debian package), MPI refuses, a process does not connect before the deadline; the
/// process then leaves by _Exit(1). mpirun refuses root unless OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 are set.
Result<std::unique_ptr<ProcessWorld>> open_process_world(RankFault& fault, const CommunicatorOptions& options);

}  // namespace lamina
