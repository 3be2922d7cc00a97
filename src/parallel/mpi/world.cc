// liblamina_mpi.so: what open_process_world loads.

#include <algorithm>
#include <numeric>
#include <string>

#include "base/check.h"
#include "base/spinner.h"
#include "base/strings.h"
#include "parallel/liveness.h"
#include "parallel/mpi.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi/wire.h"

namespace lamina {
namespace {

// Tags of the world's own messages; groups have those from kFirstGroupTag on, two each.
constexpr int kControlTag = 0, kPlanTag = 2, kResultTag = 3, kFirstGroupTag = 4;

class MpiWorld final : public ProcessWorld {
 public:
  MpiWorld(RankFault& fault, std::unique_ptr<Wire> wire)
      : fault_(fault), wire_(std::move(wire)), liveness_(fault, wire_->rank(), wire_->size()), control_(control(*wire_)) {
    for (int r = 0; r < size(); ++r) {
      if (r != rank()) others_.push_back(r);
    }
  }

  Status link(std::chrono::milliseconds deadline);

  int size() const override { return wire_->size(); }
  int rank() const override { return wire_->rank(); }
  int local_size() const override { return wire_->local_size(); }
  int cpu_sharers() const override { return wire_->cpu_sharers(); }
  int cpu_sharer_index() const override { return wire_->cpu_sharer_index(); }

  std::unique_ptr<Communicator> connect(std::string_view name, const std::vector<int>& members, int index) override {
    const int tag = next_tag_;
    next_tag_ += 2;
    return std::make_unique<MpiCommunicator>(*wire_, name, members, index, tag);
  }

  int64_t all_min(int64_t value) override;
  Status all_agree(std::string_view description) override;

  void send_plan(std::span<const std::byte> bytes) override {
    LAMINA_CHECK(rank() == 0 && !bytes.empty(), "a plan goes from rank 0 and is not empty");
    if (!fault_.raised()) wire_->send_copy(bytes, others_, kPlanTag);
  }
  bool receive_plan(std::vector<std::byte>& bytes) override;
  void send_result(std::span<const std::byte> bytes) override {
    constexpr int kRoot = 0;
    if (bytes.size() > Wire::kLongestPiece) {
      fault_.raise(cat("rank ", rank(), ": the result of a step has ", bytes.size(), " bytes, a message at most ", Wire::kLongestPiece,
                       " (a smaller --chunked-prefill-size makes smaller results)"));
    }
    if (!fault_.raised()) wire_->send_copy(bytes, {&kRoot, 1}, kResultTag);
  }
  bool try_receive_result(int from, std::vector<std::byte>& bytes) override {
    const std::optional<size_t> there = fault_.raised() ? std::nullopt : wire_->probe(from, kResultTag);
    return there.has_value() && receive(bytes, *there, from, kResultTag);
  }
  void finish() override;

 private:
  static MpiCommunicator control(Wire& wire) {
    std::vector<int> all(static_cast<size_t>(wire.size()));
    std::iota(all.begin(), all.end(), 0);
    return {wire, "world", all, wire.rank(), kControlTag};
  }
  bool receive(std::vector<std::byte>& bytes, size_t size, int from, int tag) {
    bytes.resize(size);
    if (size == 0) return wire_->take_empty(from, tag);
    wire_->post_receive(bytes, from, tag);
    return wire_->complete("a message", "world");
  }
  void broadcast_text(std::string& text, int root);

  RankFault& fault_;
  std::unique_ptr<Wire> wire_;
  Liveness liveness_;
  MpiCommunicator control_;
  std::vector<int> others_;
  int next_tag_ = kFirstGroupTag;
};

template <class T>
std::span<std::byte> raw(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Status MpiWorld::link(std::chrono::milliseconds deadline) {
  const bool one_machine = all_min(local_size()) == size();
  Result<LinkAddress> address = LinkAddress{};
  if (rank() == 0) address = liveness_.listen(one_machine);
  LinkAddress told = address.ok() ? *address : LinkAddress{};  // without an address the others give up too
  control_.broadcast(raw(told), 0);
  if (fault_.raised()) return Error{fault_.message()};
  if (!address.ok()) return address.error();
  return liveness_.link(told, deadline);
}

int64_t MpiWorld::all_min(int64_t value) {
  int64_t least = value;
  if (rank() != 0) control_.send(raw(value), 0);
  for (int r = 1; rank() == 0 && r < size(); ++r) {
    control_.receive(raw(value), r);
    least = std::min(least, value);
  }
  control_.broadcast(raw(least), 0);
  return least;
}

void MpiWorld::broadcast_text(std::string& text, int root) {
  uint64_t length = text.size();
  control_.broadcast(raw(length), root);
  if (fault_.raised()) return;
  text.resize(length);
  control_.broadcast(std::as_writable_bytes(std::span(text.data(), text.size())), root);
}

Status MpiWorld::all_agree(std::string_view description) {
  std::string verdict;
  for (int r = 1; r < size() && !fault_.raised(); ++r) {
    std::string theirs(description);
    broadcast_text(theirs, r);
    if (theirs != description && verdict.empty() && rank() == 0) {
      verdict = cat("rank ", r, " has ", theirs, ", rank 0 has ", description, ": all ranks must have the same");
    }
  }
  broadcast_text(verdict, 0);
  if (fault_.raised()) return Error{fault_.message()};
  return verdict.empty() ? Status() : Status(Error{verdict});
}

bool MpiWorld::receive_plan(std::vector<std::byte>& bytes) {
  const std::optional<size_t> size = wire_->await(0, kPlanTag);
  return size.has_value() && receive(bytes, *size, 0, kPlanTag) && *size > 0;
}

void MpiWorld::finish() {
  if (rank() == 0 && !fault_.raised()) wire_->send_copy({}, others_, kPlanTag);
  if (!wire_->flush("the end")) return;
  control_.barrier();
  if (fault_.raised()) return;
  liveness_.end();
  wire_->finalize();
}

}  // namespace
}  // namespace lamina

/// The only symbol: fills `out`.
extern "C" void lamina_open_process_world(lamina::RankFault& fault, const lamina::CommunicatorOptions& options,
                                          lamina::Result<std::unique_ptr<lamina::ProcessWorld>>& out) {
  using namespace lamina;
  auto wire = Wire::open(fault, options);
  if (!wire.ok()) {
    out = wire.error();
    return;
  }
  auto world = std::make_unique<MpiWorld>(fault, std::move(*wire));
  const Status linked = world->link(options.deadline);
  if (linked.ok())
    out = std::unique_ptr<ProcessWorld>(std::move(world));
  else
    out = linked.error();
}
