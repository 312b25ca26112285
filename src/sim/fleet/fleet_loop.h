// FleetLoop is the event loop of a fleet whose replicas depend on each other. It is private to
// sim/fleet.
#pragma once

#include <memory>
#include <queue>
#include <vector>

#include "route/prefix_index.h"
#include "sim/fleet/event_heap.h"
#include "sim/fleet/fleet.h"

namespace quire::sim {

class FleetLoop {
 public:
  FleetLoop(const Workload& workload, const FleetSpec& spec, const RunObserver& observer);
  Result<RunResult> run();

 private:
  enum class Life : uint8_t { kProvisioning, kActive, kDraining, kOff };
  struct Member {
    int32_t pool = 0;
    Life life = Life::kActive;
    int64_t since_ns = 0;  // start of the time that is paid for
    int64_t link_free_ns = 0;
    int32_t num_incoming = 0;  // legs whose KV is being transferred
    RouteLoad seen;            // what the router sees when its signals are stale
    RouteSpeed speed;          // filled in if the router uses it
    std::unique_ptr<Replica> replica;
  };
  struct PoolState {
    std::vector<int32_t> active;  // replicas that take requests
    int64_t in_flight = 0;
    int64_t too_many_since_ns = -1;
  };
  // Events outside of replicas. Those at one time happen in this order.
  enum class Outside : uint8_t { kArrival, kTransfer, kActivate, kScale, kLook };
  struct OutsideEvent {
    int64_t ns = 0;
    Outside kind = Outside::kArrival;
    int64_t order = 0;
    int32_t target = 0;  // index of the request, pool or replica
    Delivery leg;
    friend bool operator>(const OutsideEvent& a, const OutsideEvent& b) {
      if (a.ns != b.ns) return a.ns > b.ns;
      if (a.kind != b.kind) return a.kind > b.kind;
      return a.order > b.order;
    }
  };

  Status start();
  Status add_replica(int32_t pool, Life life, int64_t now_ns);
  void push(OutsideEvent event);
  bool step_outside(const OutsideEvent& event);
  void arrive(int32_t request, int64_t now_ns);
  void send(Delivery leg, Role role, int64_t now_ns);
  void deliver(int32_t replica, const Delivery& leg, int64_t now_ns);
  bool has_role(int32_t pool, Role role) const;
  void on_leg_done(int32_t replica, const Delivery& leg, int64_t now_ns);
  void transfer(int32_t replica, const Delivery& leg, int64_t now_ns);
  void end_request(int32_t request, int64_t now_ns);
  void issue_next(int64_t now_ns);
  Status scale(int32_t pool, int64_t now_ns);
  void drain(int32_t pool, int32_t count, int64_t now_ns);
  void turn_off_if_idle(int32_t replica, int64_t now_ns);
  void look();
  void find_targets(Role role);
  bool looks_into_caches() const;
  RunResult finish();

  const Workload& workload_;
  const FleetSpec& spec_;
  const RunObserver& observer_;
  RunResult result_;
  ReplicaSinks sinks_;
  std::vector<ReplicaSpec> replica_specs_;  // by pool
  std::vector<Member> members_;             // by replica
  std::vector<PoolState> pools_;
  EventHeap events_;
  std::priority_queue<OutsideEvent, std::vector<OutsideEvent>, std::greater<>> outside_;
  int64_t num_pushed_ = 0;
  size_t next_arrival_ = 0;         // index of the next open arrival
  std::vector<int32_t> next_turn_;  // by request; -1 if there is none
  Router router_;
  PrefixIndex remembered_;       // for routers that remember which prefixes they sent where
  std::vector<uint64_t> chain_;  // the prompt's hashes, for remembered_
  std::vector<RouteTarget> targets_;
  std::vector<TokenId> prompt_;
  int64_t num_done_ = 0;
  int64_t now_ns_ = 0;
  Status failure_;
  bool split_ = false;  // prefill and decode run on different pools
};

}  // namespace quire::sim
