#include "sim/fleet/fleet.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "sim/fleet/fleet_loop.h"

namespace quire::sim {
namespace {

// An ApartRun runs replicas that are independent of each other: the requests of each are known
// before the run.
class ApartRun {
 public:
  ApartRun(const Workload& workload, const FleetSpec& spec, const RunObserver& observer)
      : workload_(workload), spec_(spec), observer_(observer) {
    for (size_t p = 0; p < spec.pools.size(); ++p) {
      for (int32_t i = 0; i < spec.pools[p].num_replicas; ++i) {
        result_.replicas.push_back({.pool = static_cast<int32_t>(p)});
      }
    }
    result_.most_replicas = static_cast<int32_t>(result_.replicas.size());
    result_.records.resize(workload.requests.size());
    result_.stats.timeline = Timeline(spec.slice_ns);
  }

  Result<RunResult> run() {
    route();
    std::vector<std::thread> threads;
    const int32_t num_threads = std::min(spec_.num_threads, result_.most_replicas);
    try {
      for (int32_t i = 1; i < num_threads; ++i) threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the threads that could be started do all the work
    }
    work();
    for (std::thread& thread : threads) thread.join();
    QUIRE_RETURN_IF_ERROR(failure_);
    for (ReplicaRun& replica : result_.replicas) replica.paid_ns = result_.end_ns;
    return std::move(result_);
  }

 private:
  void route() {
    assigned_.resize(result_.replicas.size());
    std::vector<RouteTarget> targets;
    for (size_t i = 0; i < assigned_.size(); ++i) {
      targets.push_back(
          {.replica = static_cast<int32_t>(i), .name = static_cast<uint32_t>(i), .load = {}});
    }
    Router router(spec_.router);
    for (size_t i = 0; i < workload_.requests.size(); ++i) {
      const SimRequest& request = workload_.requests[i];
      const size_t replica =
          router
              .choose(targets, {.session = request.session, .prompt_tokens = request.input_tokens},
                      {})
              .target;
      assigned_[replica].push_back(static_cast<int32_t>(i));
    }
  }

  void work() {
    ShardStats stats;
    stats.timeline = Timeline(spec_.slice_ns);
    int64_t end_ns = 0;
    for (size_t i = next_++; i < assigned_.size(); i = next_++) {
      const Status status = run_replica(i, stats, end_ns);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex_);
      failure_ = status;
      break;
    }
    const std::lock_guard lock(mutex_);
    result_.stats.merge(stats);
    result_.end_ns = std::max(result_.end_ns, end_ns);
  }

  Status run_replica(size_t index, ShardStats& stats, int64_t& end_ns) {
    const PoolSpec& pool = spec_.pools[static_cast<size_t>(result_.replicas[index].pool)];
    ReplicaSinks sinks{.workload = &workload_, .records = &result_.records, .stats = &stats};
    sinks.on_leg_done = [&](int32_t, const Delivery& leg, int64_t now_ns) {
      RequestRecord& record = result_.records[static_cast<size_t>(leg.request)];
      if (record.outcome == Outcome::kUnfinished) record.outcome = Outcome::kCompleted;
      ++stats.timeline.at(now_ns).num_finished;
    };
    QUIRE_ASSIGN_OR_RETURN(const auto replica,
                           Replica::create(static_cast<int32_t>(index), pool.replica, sinks));
    for (const int32_t i : assigned_[index]) {
      if (!arrive(*replica, i, stats, end_ns)) break;
    }
    replica->set_horizon(kNever);
    advance(*replica, kNever, end_ns);
    result_.replicas[index].counters = replica->counters();
    report(static_cast<int64_t>(assigned_[index].size()));
    return {};
  }

  bool arrive(Replica& replica, int32_t request, ShardStats& stats, int64_t& end_ns) {
    const SimRequest& source = workload_.requests[static_cast<size_t>(request)];
    if (source.arrival_ns > spec_.stop_ns) return false;
    RequestRecord& record = result_.records[static_cast<size_t>(request)];
    record.arrival_ns = source.arrival_ns;
    record.input_tokens = source.input_tokens;
    ++stats.timeline.at(source.arrival_ns).num_arrivals;
    end_ns = std::max(end_ns, source.arrival_ns);
    const int64_t at_ns = source.arrival_ns + spec_.admission_ns;
    if (at_ns > spec_.stop_ns) return false;
    replica.set_horizon(at_ns);
    advance(replica, at_ns, end_ns);
    replica.deliver({.request = request,
                     .prompt_tokens = source.input_tokens,
                     .output_tokens = source.output_tokens},
                    at_ns);
    return true;
  }

  // Performs the events that precede a delivery at until_ns.
  void advance(Replica& replica, int64_t until_ns, int64_t& end_ns) {
    for (ReplicaEvent e = replica.next(); e.ns != kNever; e = replica.next()) {
      const bool first = e.ns < until_ns || (e.ns == until_ns && e.phase == EventPhase::kFinish);
      if (!first || e.ns > spec_.stop_ns) return;
      replica.process();
      end_ns = std::max(end_ns, e.ns);
    }
  }

  void report(int64_t num_requests) {
    if (!observer_.progress) return;
    const std::lock_guard lock(mutex_);
    num_done_ += num_requests;
    observer_.progress(num_done_, static_cast<int64_t>(workload_.requests.size()));
  }

  const Workload& workload_;
  const FleetSpec& spec_;
  const RunObserver& observer_;
  RunResult result_;
  std::vector<std::vector<int32_t>> assigned_;  // requests by replica, in order of arrival
  std::atomic<size_t> next_{0};
  std::mutex mutex_;  // guards result_.stats, end_ns, failure_, num_done_
  int64_t num_done_ = 0;
  Status failure_;
};

bool runs_apart(const Workload& workload, const FleetSpec& spec, const RunObserver& observer) {
  if (spec.one_heap || observer.on_step || reads_state(spec.router.routing) ||
      !workload.open_loop()) {
    return false;
  }
  return std::all_of(spec.pools.begin(), spec.pools.end(), [](const PoolSpec& pool) {
    return pool.role == Role::kBoth && pool.autoscale.max_replicas == 0;
  });
}

// `apart` means that a replica exists only while a thread runs it.
Status check_memory(const FleetSpec& spec, bool apart) {
  int64_t all = 0, largest = 0, num_replicas = 0;
  for (const PoolSpec& pool : spec.pools) {
    QUIRE_ASSIGN_OR_RETURN(const int64_t bytes, Replica::book_bytes(pool.replica));
    const int64_t most = std::max(pool.num_replicas, pool.autoscale.max_replicas);
    all += most * bytes;
    num_replicas += most;
    largest = std::max(largest, bytes);
  }
  if (apart) num_replicas = std::min<int64_t>(num_replicas, spec.num_threads);
  if (apart) all = std::min(all, num_replicas * largest);
  if (all <= spec.memory_bytes) return {};
  return resource_exhausted(
      "simulation: the KV blocks of {} replicas take {} MiB of this machine's memory, of which {} "
      "MiB may be used; lower --replicas or --num-gpu-blocks-override",
      num_replicas, all >> 20, spec.memory_bytes >> 20);
}

Status check_pool(const PoolSpec& pool) {
  const AutoscaleOptions& scale = pool.autoscale;
  if (pool.replica.timer == nullptr)
    return invalid_argument("pool '{}': expected a timer of its steps, got none", pool.name);
  if (pool.num_replicas < 1 || pool.devices_per_replica < 1) {
    return invalid_argument("pool '{}': expected at least 1 replica and 1 device, got {} and {}",
                            pool.name, pool.num_replicas, pool.devices_per_replica);
  }
  if (scale.max_replicas == 0) return {};
  if (scale.max_replicas < pool.num_replicas) {
    return invalid_argument("pool '{}': expected a maximum of at least its {} replicas, got {}",
                            pool.name, pool.num_replicas, scale.max_replicas);
  }
  if (scale.interval_ns < 1 || scale.provisioning_ns < 0 || scale.scale_down_ns < 0 ||
      !(scale.target_requests > 0)) {
    return invalid_argument(
        "pool '{}': autoscaling: expected an interval and a target above 0, and no time below 0; "
        "got an interval of {} ns, a target of {} requests, and {} ns and {} ns to add and remove "
        "a replica",
        pool.name, scale.interval_ns, scale.target_requests, scale.provisioning_ns,
        scale.scale_down_ns);
  }
  return {};
}

// Pictures are part of the hashes of the blocks that they lie in, which transfers and host memory
// do not handle.
Status check_pictures(const Workload& workload, const FleetSpec& spec) {
  if (workload.picture_items.empty()) return {};
  for (const PoolSpec& pool : spec.pools) {
    if (pool.replica.engine.scheduler.encoder_cache_tokens == 0)
      return invalid_argument("pool '{}': expected a model that reads pictures", pool.name);
    if (pool.role == Role::kBoth && pool.replica.tier.capacity_tokens == 0) continue;
    return invalid_argument(
        "pool '{}': pictures: expected neither host memory for KV nor replicas for prompts alone",
        pool.name);
  }
  return {};
}

}  // namespace

std::string_view to_string(Role role) {
  constexpr std::string_view kNames[] = {"both", "prefill", "decode"};
  return kNames[static_cast<size_t>(role)];
}

Status FleetSpec::validate() const {
  int num_both = 0, num_prefill = 0, num_decode = 0;
  for (const PoolSpec& pool : pools) {
    QUIRE_RETURN_IF_ERROR(check_pool(pool));
    num_both += pool.role == Role::kBoth;
    num_prefill += pool.role == Role::kPrefill;
    num_decode += pool.role == Role::kDecode;
  }
  if (pools.empty() || (num_both > 0 && num_prefill + num_decode > 0) ||
      (num_both == 0 && (num_prefill == 0 || num_decode == 0))) {
    return invalid_argument(
        "deployment: expected pools that do both prefill and decode, or pools of each; got {}, {} "
        "and {}",
        num_both, num_prefill, num_decode);
  }
  if (!(transfer.bytes_per_s > 0) || transfer.latency_ns < 0 || admission_ns < 0 || slice_ns < 1 ||
      num_threads < 1 || router.stale_ns < 0) {
    return invalid_argument("deployment: a rate, a time or the number of threads is out of bounds");
  }
  return {};
}

Result<RunResult> run(const Workload& workload, const FleetSpec& spec,
                      const RunObserver& observer) {
  QUIRE_RETURN_IF_ERROR(spec.validate());
  QUIRE_RETURN_IF_ERROR(check_pictures(workload, spec));
  const bool apart = runs_apart(workload, spec, observer);
  QUIRE_RETURN_IF_ERROR(check_memory(spec, apart));
  if (apart) return ApartRun(workload, spec, observer).run();
  return FleetLoop(workload, spec, observer).run();
}

}  // namespace quire::sim
