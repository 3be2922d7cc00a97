// mpi_ranks MODE: what mpi_test.cc starts under mpirun. A rank that leaves by a fault prints "rank R leaves: MESSAGE", one in good order
// "rank R is done".

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "base/strings.h"
#include "parallel/mpi.h"
#include "tests/parallel/communicator_suite.h"

namespace lamina {
namespace {

using namespace std::chrono_literals;

struct Run {
  RankFault fault;
  std::unique_ptr<ProcessWorld> world;
  int failures = 0;

  int rank() const { return world->rank(); }
  void expect(bool holds, std::string_view what) {
    if (holds) return;
    ++failures;
    std::printf("rank %d: %.*s\n", rank(), static_cast<int>(what.size()), what.data());
  }
};

std::vector<std::byte> message(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void leave(Run& run) {
  std::printf("rank %d leaves: %s\n", run.rank(), run.fault.message().c_str());
  std::fflush(stdout);
  run.world.reset();
  std::_Exit(1);
}

// ---- orderly runs ------------------------------------------------------------------------------------------------------------

void check_groups(Run& run) {
  const int size = run.world->size();
  const Topology topology = size % 2 == 0 ? Topology{.tp_size = size / 2, .pp_size = 2} : Topology{.tp_size = size};
  const auto connect = [&](std::string_view name, const std::vector<int>& members, int index) {
    return run.world->connect(name, members, index);
  };
  const ParallelGroups groups = ParallelGroups::connected(topology, run.rank(), connect);
  for (const char* name : {"world", "tp", "pp"}) {
    const ParallelGroup& group = *groups.find(name).value();
    for (const suite::Check& check : suite::checks()) {
      if (group.size == 1) continue;
      const std::string wrong = check.run(*group.communicator);
      run.expect(wrong.empty(), cat(check.name, " of ", name, ": ", wrong));
    }
  }
}

void check_agreement(Run& run) {
  run.expect(run.world->local_size() == run.world->size(), "not all ranks are on this machine");
  run.expect(run.world->cpu_sharers() < run.world->size() || run.world->cpu_sharer_index() == run.rank(),
             "not by rank among those that share CPUs");
  run.expect(run.world->all_min(100 - run.rank()) == 101 - run.world->size(), "all_min is not the least");
  run.expect(run.world->all_agree("the same").ok(), "ranks that agree are refused");
  const Status refused = run.world->all_agree(run.rank() == 1 ? "avx2" : "avx512");
  run.expect(!refused.ok() && refused.error().message.find("rank 1 has avx2, rank 0 has avx512") == 0, "no refusal that names both");
}

/// Two plans are under way at a time; each rank answers each.
void check_plans(Run& run) {
  constexpr int kPlans = 40;
  const auto plan = [](int i) { return std::string(static_cast<size_t>(1 + i * i * 100), static_cast<char>('a' + i % 26)); };
  std::vector<std::byte> bytes;
  for (int i = 0; run.rank() > 0 && run.world->receive_plan(bytes); ++i) {
    run.expect(bytes == message(plan(i)), cat("plan ", i, " came otherwise"));
    run.world->send_result(message(cat("result ", i, " of ", run.rank())));
  }
  for (int i = 0; run.rank() == 0 && i <= kPlans; ++i) {
    if (i < kPlans) run.world->send_plan(message(plan(i)));
    for (int from = 1; i > 0 && from < run.world->size(); ++from) {
      while (!run.world->try_receive_result(from, bytes) && !run.fault.raised()) std::this_thread::yield();
      run.expect(bytes == message(cat("result ", i - 1, " of ", from)), "a result came otherwise");
    }
  }
}

void run_suite(Run& run) {
  check_groups(run);
  check_agreement(run);
  check_plans(run);
}

// ---- faults ------------------------------------------------------------------------------------------------------------------

std::unique_ptr<Communicator> everybody(Run& run) {
  std::vector<int> members;
  for (int r = 0; r < run.world->size(); ++r) members.push_back(r);
  return run.world->connect("tp", members, run.rank());
}

/// All ranks add without end until f(round) does something else.
void work(Run& run, const std::function<void(int)>& f) {
  const auto group = everybody(run);
  std::vector<float> values(50'000, 1.0F);
  for (int round = 0; !run.fault.raised(); ++round) {
    f(round);
    group->all_reduce_sum({values.data(), 1, static_cast<int64_t>(values.size())});
  }
}

void die(Run& run, int victim) {
  work(run, [&](int round) {
    if (round == 50 && run.rank() == victim) kill(getpid(), SIGKILL);
  });
}

void die_while_idle(Run& run) {
  std::vector<std::byte> bytes;
  if (run.rank() == run.world->size() - 1) kill(getpid(), SIGKILL);
  while (run.rank() == 0 && !run.fault.raised()) std::this_thread::yield();
  if (run.rank() > 0) run.expect(!run.world->receive_plan(bytes), "a plan came from nowhere");
}

void raise_on_one(Run& run) {
  work(run, [&](int round) {
    if (round == 50 && run.rank() == 1) run.fault.raise("rank 1: no memory for the KV pool");
  });
}

void come_late(Run& run) {
  work(run, [&](int round) {
    std::vector<std::byte> none;
    if (round == 50 && run.rank() == 1) run.expect(!run.world->receive_plan(none), "a plan came from nowhere");
  });
}

struct Mode {
  const char* name;
  std::function<void(Run&)> run;
};

int main_of(const char* name) {
  const Mode modes[] = {{"suite", run_suite},
                        {"die", [](Run& run) { die(run, run.world->size() - 1); }},
                        {"root-dies", [](Run& run) { die(run, 0); }},
                        {"idle", die_while_idle},
                        {"raise", raise_on_one},
                        {"late", come_late}};
  std::signal(SIGTERM, SIG_IGN);  // mpirun's, when a rank died: the fault must come without it
  Run run;
  const auto deadline = std::strcmp(name, "late") == 0 ? std::chrono::milliseconds(1000) : 60s;
  auto world = open_process_world(run.fault, {.deadline = deadline, .cpus = 2});
  if (!world.ok()) {
    std::printf("error: %s\n", world.error().message.c_str());
    std::fflush(stdout);
    std::_Exit(1);
  }
  run.world = std::move(*world);
  for (const Mode& mode : modes) {
    if (std::strcmp(mode.name, name) == 0) mode.run(run);
  }
  if (run.fault.raised()) leave(run);
  run.world->finish();
  std::printf("rank %d is done\n", run.rank());
  return run.failures == 0 && !run.fault.raised() ? 0 : 1;
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) { return argc == 2 ? lamina::main_of(argv[1]) : 2; }
