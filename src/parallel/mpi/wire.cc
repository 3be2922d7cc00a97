#include "parallel/mpi/wire.h"

#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/spinner.h"
#include "base/strings.h"

namespace lamina {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

/// A waiting process lets others work: it polls for a moment, then sleeps ever longer, a millisecond at most.
class Patience {
 public:
  explicit Patience(bool spins) : spins_(spins) {}
  void pause() {
    const auto waited = Clock::now() - start_;
    if (spins_ && waited < microseconds(1000)) return pause_cpu();
    if (!spins_ && waited < microseconds(200)) return static_cast<void>(sched_yield());
    std::this_thread::sleep_for(std::clamp<Clock::duration>(waited / 8, microseconds(50), microseconds(1000)));
  }
  Clock::duration waited() const { return Clock::now() - start_; }

 private:
  bool spins_;
  Clock::time_point start_ = Clock::now();
};

int no_help(const char*, const char*, int, ...) { return 0; }

/// Open MPI 4 explains a lost peer in a call that waits for mpirun to print it. While mpirun ends the job it does not answer, and the
/// thread would hang there; the explanation comes from the links instead. (In other versions the name is no pointer.)
void silence_help() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  if (!std::string_view(version).starts_with("Open MPI v4.")) return;
  using Help = int (*)(const char*, const char*, int, ...);
  if (auto* help = static_cast<Help*>(dlsym(RTLD_DEFAULT, "opal_show_help")); help != nullptr) *help = no_help;
}

}  // namespace

struct Wire::State {
  RankFault* fault = nullptr;
  std::chrono::milliseconds deadline{0};
  bool spins = false;
  int size = 1, rank = 0, local_size = 1, cpu_sharers = 1, cpu_sharer_index = 0;

  std::mutex mpi;  // MPI is entered by one thread at a time

  // What complete() waits for.
  std::vector<MPI_Request> requests;
  std::vector<int> peers;

  // What send_copy has under way. A copy without requests is free for the next message.
  struct Copy {
    std::vector<std::byte> bytes;
    std::vector<MPI_Request> requests;
    std::vector<int> peers;
  };
  std::deque<Copy> copies;
  std::condition_variable copies_wait;
  bool ending = false;
  std::thread mover;

  /// A failed call is a fault. When the reason is a process that died, its link breaks too and says it better: that gets two seconds.
  void check(int code) {
    if (code == MPI_SUCCESS) return;
    for (int i = 0; i < 200 && !fault->raised(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    fault->raise(cat("MPI: ", std::string_view(text, static_cast<size_t>(length))));
  }

  /// Whether all copies are delivered. `mpi` is held.
  bool delivered() {
    bool all = true;
    for (Copy& copy : copies) {
      if (copy.requests.empty()) continue;
      int done = 0;
      check(MPI_Testall(static_cast<int>(copy.requests.size()), copy.requests.data(), &done, MPI_STATUSES_IGNORE));
      if (done != 0) copy.requests.clear();
      all = all && done != 0;
    }
    return all;
  }

  void move_copies() {
    std::unique_lock lock(mpi);
    while (!ending && !fault->raised()) {
      if (delivered())
        copies_wait.wait(lock);
      else
        copies_wait.wait_for(lock, microseconds(200));
    }
  }

  void raise_late(std::string_view operation, std::string_view group, const std::set<int>& late) {
    std::vector<std::string> names;
    for (const int rank_late : late) names.push_back(cat(rank_late));
    fault->raise(cat(names.size() == 1 ? "rank " : "ranks ", join(names, ", "), " did not come to ", operation, " of group \"", group,
                     "\" within ", deadline.count(), " ms"));
  }

  static std::set<int> unfinished(std::vector<MPI_Request>& pending, const std::vector<int>& pending_peers) {
    std::set<int> out;
    for (size_t i = 0; i < pending.size(); ++i) {
      int done = 0;
      MPI_Test(&pending[i], &done, MPI_STATUS_IGNORE);
      if (done == 0) out.insert(pending_peers[i]);
    }
    return out;
  }

  void look_at_neighbours();
};

/// Counts the processes of this machine and those whose CPUs overlap with this one's. Collective.
void Wire::State::look_at_neighbours() {
  MPI_Comm machine = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine));
  MPI_Comm_size(machine, &local_size);
  cpu_set_t own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof(own), &own);
  std::vector<cpu_set_t> all(static_cast<size_t>(local_size));
  check(MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, machine));
  const auto shares = [&](const cpu_set_t& theirs) {
    cpu_set_t common;
    CPU_AND(&common, &own, &theirs);
    return CPU_COUNT(&common) > 0;
  };
  int index = 0;
  MPI_Comm_rank(machine, &index);
  cpu_sharers = static_cast<int>(std::count_if(all.begin(), all.end(), shares));
  cpu_sharer_index = static_cast<int>(std::count_if(all.begin(), all.begin() + index, shares));
  MPI_Comm_free(&machine);
}

Wire::Wire() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<Wire>> Wire::open(RankFault& fault, const CommunicatorOptions& options) {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return error("MPI cannot be initialised");
  if (provided < MPI_THREAD_SERIALIZED) return error("this MPI library does not support threads (MPI_THREAD_SERIALIZED)");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::unique_ptr<Wire> wire(new Wire);
  State& s = *wire->state_;
  s.fault = &fault;
  s.deadline = options.deadline;
  MPI_Comm_size(MPI_COMM_WORLD, &s.size);
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  s.look_at_neighbours();
  silence_help();
  s.spins = std::max(1, options.threads_of_process) * s.cpu_sharers <= options.cpus;
  try {
    s.mover = std::thread([state = wire->state_.get()] { state->move_copies(); });
  } catch (const std::system_error& refused) {
    return error("no thread to move messages between ranks: ", std::string_view(refused.what()));
  }
  return wire;
}

Wire::~Wire() {
  if (!state_->mover.joinable()) return;
  {
    const std::scoped_lock lock(state_->mpi);
    state_->ending = true;
  }
  state_->copies_wait.notify_all();
  state_->mover.join();
}

int Wire::size() const { return state_->size; }
int Wire::rank() const { return state_->rank; }
int Wire::local_size() const { return state_->local_size; }
int Wire::cpu_sharers() const { return state_->cpu_sharers; }
int Wire::cpu_sharer_index() const { return state_->cpu_sharer_index; }
bool Wire::faulted() const { return state_->fault->raised(); }

void Wire::post_send(std::span<const std::byte> bytes, int to, int tag) {
  const std::scoped_lock lock(state_->mpi);
  for (size_t at = 0; at < bytes.size(); at += kLongestPiece) {
    const size_t piece = std::min(kLongestPiece, bytes.size() - at);
    state_->peers.push_back(to);
    MPI_Request& request = state_->requests.emplace_back(MPI_REQUEST_NULL);
    state_->check(MPI_Isend(bytes.data() + at, checked_cast<int>(piece), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request));
  }
}

void Wire::post_receive(std::span<std::byte> bytes, int from, int tag) {
  const std::scoped_lock lock(state_->mpi);
  for (size_t at = 0; at < bytes.size(); at += kLongestPiece) {
    const size_t piece = std::min(kLongestPiece, bytes.size() - at);
    state_->peers.push_back(from);
    MPI_Request& request = state_->requests.emplace_back(MPI_REQUEST_NULL);
    state_->check(MPI_Irecv(bytes.data() + at, checked_cast<int>(piece), MPI_BYTE, from, tag, MPI_COMM_WORLD, &request));
  }
}

void Wire::post_handshake(int peer, int tag) {
  const std::scoped_lock lock(state_->mpi);
  state_->peers.insert(state_->peers.end(), 2, peer);
  state_->check(MPI_Isend(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &state_->requests.emplace_back(MPI_REQUEST_NULL)));
  state_->check(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &state_->requests.emplace_back(MPI_REQUEST_NULL)));
}

bool Wire::complete(std::string_view operation, std::string_view group) {
  State& s = *state_;
  for (Patience patience(s.spins); !s.fault->raised(); patience.pause()) {
    const std::scoped_lock lock(s.mpi);
    int done = 0;
    s.check(MPI_Testall(static_cast<int>(s.requests.size()), s.requests.data(), &done, MPI_STATUSES_IGNORE));
    if (done == 0 && patience.waited() >= s.deadline) {
      const std::set<int> late = State::unfinished(s.requests, s.peers);
      if (!late.empty()) s.raise_late(operation, group, late);
    }
    if (done != 0 && !s.fault->raised()) {
      s.requests.clear();
      s.peers.clear();
      return true;
    }
  }
  return false;
}

void Wire::send_copy(std::span<const std::byte> bytes, std::span<const int> peers, int tag) {
  LAMINA_CHECK(bytes.size() <= kLongestPiece, "a copied message is too long");
  State& s = *state_;
  const std::scoped_lock lock(s.mpi);
  s.delivered();
  const auto free = std::find_if(s.copies.begin(), s.copies.end(), [](const State::Copy& c) { return c.requests.empty(); });
  State::Copy& copy = free != s.copies.end() ? *free : s.copies.emplace_back();
  copy.bytes.assign(bytes.begin(), bytes.end());
  copy.peers.assign(peers.begin(), peers.end());
  copy.requests.assign(peers.size(), MPI_REQUEST_NULL);
  for (size_t i = 0; i < peers.size(); ++i) {
    const int count = checked_cast<int>(copy.bytes.size());
    s.check(MPI_Isend(copy.bytes.data(), count, MPI_BYTE, peers[i], tag, MPI_COMM_WORLD, &copy.requests[i]));
  }
  if (!s.delivered()) s.copies_wait.notify_one();
}

bool Wire::flush(std::string_view operation) {
  State& s = *state_;
  for (Patience patience(s.spins); !s.fault->raised(); patience.pause()) {
    const std::scoped_lock lock(s.mpi);
    if (s.delivered()) return !s.fault->raised();
    if (patience.waited() < s.deadline) continue;
    std::set<int> late;
    for (State::Copy& copy : s.copies) late.merge(State::unfinished(copy.requests, copy.peers));
    if (!late.empty()) s.raise_late(operation, "world", late);
  }
  return false;
}

std::optional<size_t> Wire::probe(int from, int tag) {
  const std::scoped_lock lock(state_->mpi);
  int there = 0, count = 0;
  MPI_Status status;
  state_->check(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &there, &status));
  if (there == 0) return std::nullopt;
  MPI_Get_count(&status, MPI_BYTE, &count);
  return static_cast<size_t>(count);
}

std::optional<size_t> Wire::await(int from, int tag) {
  for (Patience patience(state_->spins); !faulted(); patience.pause()) {
    if (const std::optional<size_t> size = probe(from, tag)) return size;
  }
  return std::nullopt;
}

bool Wire::take_empty(int from, int tag) {
  const std::scoped_lock lock(state_->mpi);
  state_->check(MPI_Recv(nullptr, 0, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return !faulted();
}

void Wire::finalize() {
  const std::scoped_lock lock(state_->mpi);
  MPI_Finalize();
}

}  // namespace lamina
