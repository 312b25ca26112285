// A fleet is pools of replicas behind one router; run() runs a workload on it.
//
// Virtual time has one heap of events for the fleet. If the router reads no state of the replicas
// and no arrival depends on an answer, each replica is a run of its own, several at once on
// threads, with the same result (tested). The same workload, spec and seed give the same result,
// bit by bit, for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "route/router.h"
#include "sim/replica/record.h"
#include "sim/replica/replica.h"
#include "sim/workload/workload.h"

namespace quire::sim {

enum class Role : uint8_t { kBoth, kPrefill, kDecode };
std::string_view to_string(Role role);

// Autoscaling adds and removes replicas by the load, measured in requests in flight per active
// replica.
struct AutoscaleOptions {
  int32_t max_replicas = 0;  // 0 means no autoscaling; PoolSpec::num_replicas is the minimum
  double target_requests = 32;
  int64_t interval_ns = 15'000'000'000;
  // Before a new replica takes requests; already paid for.
  int64_t provisioning_ns = 120'000'000'000;
  int64_t scale_down_ns = 300'000'000'000;  // how long fewer replicas must have been enough
};

struct PoolSpec {
  std::string name;
  Role role = Role::kBoth;
  ReplicaSpec replica;
  int32_t num_replicas = 1;
  int32_t devices_per_replica = 1;
  std::string fidelity;  // of the step times, as reports show it
  double price_per_device_hour = 0;
  double watts_per_device = 0;
  AutoscaleOptions autoscale;
};

// The link from a prefill replica to a decode replica. Transfers of one prefill replica queue.
struct TransferLink {
  double bytes_per_s = 50e9;
  int64_t latency_ns = 200'000;
};

struct FleetSpec {
  std::vector<PoolSpec> pools;
  RouterOptions router;
  TransferLink transfer;
  int64_t admission_ns = 0;          // in the front end, before the router sees a request
  int64_t slice_ns = 1'000'000'000;  // length of a slice of the timeline
  int64_t stop_ns = kNever;          // the run ends here; running requests stay unfinished
  int32_t num_threads = 1;
  // Memory of this machine that the KV blocks of all replicas may take.
  int64_t memory_bytes = kNever;
  bool one_heap = false;  // use one heap even if replicas could run apart

  Status validate() const;
};

struct RunObserver {
  // Is called with the number of ended requests and of all, from several threads but one at a time.
  std::function<void(int64_t done, int64_t total)> progress;
  std::function<void(const StepView&)> on_step;  // makes the run single-threaded
};

struct ReplicaRun {
  int32_t pool = 0;
  ReplicaCounters counters;
  int64_t paid_ns = 0;  // time in which the replica was provisioned or running
};

struct RunResult {
  std::vector<RequestRecord> records;  // by index in the workload
  ShardStats stats;
  std::vector<ReplicaRun> replicas;
  int64_t end_ns = 0;  // time of the last token, or stop_ns
  int32_t most_replicas = 0;
  int64_t transferred_tokens = 0;
};

// Runs `workload`, which the caller has validated. Returns an error if a spec is out of bounds or a
// pool's KV memory is too small.
Result<RunResult> run(const Workload& workload, const FleetSpec& spec,
                      const RunObserver& observer = {});

}  // namespace quire::sim
