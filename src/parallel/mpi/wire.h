#pragma once
// The part of MPI that is used: nonblocking messages between two processes, and waits that a fault or the deadline ends.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "parallel/rank_fault.h"

namespace lamina {

/// MPI of this process; one object a process. Calls come from one thread at a time.
class Wire {
 public:
  static constexpr size_t kLongestPiece = size_t{1} << 30;  // MPI counts in int
  /// Initialises MPI.
  static Result<std::unique_ptr<Wire>> open(RankFault& fault, const CommunicatorOptions& options);
  ~Wire();

  int size() const;
  int rank() const;
  /// Processes of this machine, and those of them (this one included) that share this one's CPUs: 1 when each is bound to its own.
  int local_size() const;
  int cpu_sharers() const;
  /// Those of them that have a lower rank.
  int cpu_sharer_index() const;
  bool faulted() const;

  /// Adds a transfer to those that complete() waits for; the memory stays until then. No bytes, no message.
  void post_send(std::span<const std::byte> bytes, int to, int tag);
  void post_receive(std::span<std::byte> bytes, int from, int tag);
  /// A message without bytes to and from `peer`.
  void post_handshake(int peer, int tag);
  /// Waits for all posted transfers. False after a fault; a missed deadline raises one that names `operation`, `group` and who is late.
  bool complete(std::string_view operation, std::string_view group);

  /// Sends a copy that is kept until it is delivered; does not wait. A thread keeps such messages moving while this one computes.
  void send_copy(std::span<const std::byte> bytes, std::span<const int> peers, int tag);
  /// Waits until all copies are delivered.
  bool flush(std::string_view operation);
  /// The size of the next message of `from` with `tag` if it is there. Does not wait.
  std::optional<size_t> probe(int from, int tag);
  /// Waits for it, for as long as it takes, at little cost; nothing after a fault.
  std::optional<size_t> await(int from, int tag);
  /// Takes a message without bytes that probe() found.
  bool take_empty(int from, int tag);

  /// All processes end MPI together; nothing else is called afterwards.
  void finalize();

 private:
  Wire();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lamina
