#pragma once
// The state of a Scheduler. scheduler.cc takes requests and results, planning.cc makes the plans, admission.cc lets waiting requests in.

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "scheduler/kv_ledger.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace lamina {

/// `running` and `waiting` are ordered by arrival.
inline bool earlier(const LiveRequest* a, const LiveRequest* b) { return a->arrival < b->arrival; }

template <class Queue>
void insert_by_arrival(Queue& queue, LiveRequest* request) {
  queue.insert(std::upper_bound(queue.begin(), queue.end(), request, earlier), request);
}

struct Scheduler::Impl {
  /// What complete() must know of an entry in flight.
  struct Flight {
    LiveRequest* request;
    int32_t token_count;
    bool sample, returns_rows;
  };
  struct PlanInFlight {
    int64_t step = 0;
    std::vector<Flight> flights;  // in the plan's order
  };

  explicit Impl(SchedulerConfig c);

  KvLedger& ledger(const LiveRequest& request) { return ledgers[static_cast<size_t>(request.dp_rank)]; }
  const KvLedger& ledger(const LiveRequest& request) const { return ledgers[static_cast<size_t>(request.dp_rank)]; }
  int64_t pages_for(int64_t tokens) const { return ledgers.front().pages_for(tokens); }
  bool covered(const LiveRequest& request) const { return pages_for(request.size()) <= std::ssize(request.kv.pages); }
  int64_t running_on(int dp_rank) const;

  PlanInFlight& oldest_plan() { return in_flight[first_in_flight]; }
  PlanInFlight& next_plan() { return in_flight[(first_in_flight + plans_out) % in_flight.size()]; }

  // planning.cc
  void rebind(LiveRequest& request);
  void cover_running();
  bool retract_one(size_t& cursor);
  int schedule_decodes(StepPlan& plan);
  void choose_decodes(int dp_rank);
  int64_t prompt_budget(int decodes) const;
  int64_t schedule_prefills(StepPlan& plan, int64_t budget);
  void add_entry(StepPlan& plan, LiveRequest& request, int64_t count);
  void shrink_ratio();

  // admission.cc
  void admit_waiting(StepPlan& plan, int64_t budget);
  int64_t admissible() const;
  size_t next_waiting() const;
  int64_t cached_prefix(const LiveRequest& request, int dp_rank) const;
  bool place(StepPlan& plan, LiveRequest& request);
  void rank_by_cost(const LiveRequest& request);
  bool start(StepPlan& plan, LiveRequest& request);
  bool fits_now(const LiveRequest& request, int dp_rank, int64_t own_pages) const;
  int64_t reserved_tokens(const LiveRequest& request) const;

  // scheduler.cc
  RequestEvent advance(const Flight& flight, const StepOutput& output);
  void retire(LiveRequest& request, bool keep);

  SchedulerConfig config;
  std::deque<KvLedger> ledgers;  // one a dp rank
  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> live;
  std::deque<LiveRequest*> waiting;
  std::vector<LiveRequest*> running;
  std::vector<PlanInFlight> in_flight;  // a ring of plans_in_flight
  size_t first_in_flight = 0, plans_out = 0;
  std::vector<RequestId> released;  // to be told with the next plan
  std::vector<RequestId> aborted;   // to be reported by the next complete()
  int64_t step = 0, arrivals = 0, retractions = 0;
  double ratio;  // between min_new_token_ratio and 1

  // Kept only for their memory.
  std::vector<LiveRequest*> chosen;
  struct Placement {
    int64_t cost, obtainable;
    int dp_rank;
  };
  std::vector<Placement> placements;
};

}  // namespace lamina
