#pragma once
// Who notices that a process died: TCP links between rank 0 and every other rank, watched by a thread that does nothing else.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "parallel/rank_fault.h"

namespace lamina {

/// Where rank 0 waits for the others; plain bytes that travel by whatever the processes have in common.
struct LinkAddress {
  uint64_t token = 0;  // tells this run's rank 0 from whoever else listens at such an address
  uint16_t port = 0;
  uint16_t count = 0;
  std::array<uint32_t, 16> hosts{};  // IPv4, network order
};

/// One a process. A process whose link breaks is gone: that raises the fault on rank 0, which tells all others why; a fault raised on any
/// rank reaches all others the same way. Nothing here waits for a compute thread.
class Liveness {
 public:
  Liveness(RankFault& fault, int rank, int size);
  /// Tells the others of a fault that was raised here, then closes the links.
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  /// Rank 0: listens, on the loopback address alone when all ranks are on `one_machine`. Errors: the system refuses.
  Result<LinkAddress> listen(bool one_machine);
  /// Links all ranks and begins to watch; every rank calls it. Errors: who is not there before the deadline.
  Status link(const LinkAddress& address, std::chrono::milliseconds deadline);
  /// This rank ends in good order: from now on neither its end nor that of others is a fault.
  void end();

 private:
  struct Link {
    int fd = -1;
    int rank = 0;
    bool ended = false;    // said goodbye
    std::string unread{};  // received, not yet a whole message
  };

  Status accept_all(uint64_t token, std::chrono::steady_clock::time_point until);
  Status connect_to(const LinkAddress& address, std::chrono::steady_clock::time_point until);
  void add_link(int fd, int rank);
  void watch();
  void read(Link& link);
  void take_messages(Link& link);
  void tell_fault();
  void stop();

  RankFault& fault_;
  const int rank_, size_;
  int listener_ = -1;
  int wake_ = -1;  // eventfd
  std::vector<Link> links_;
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

}  // namespace lamina
