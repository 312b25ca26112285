// The planner finds the fewest (or cheapest) devices that serve a workload within SLOs, by
// simulating deployments.
//
// For every machine, tensor parallelism and batch setting it searches the smallest number of
// replicas that meets the SLOs, by doubling and then bisection. It assumes that more replicas are
// never worse.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/fleet/deployment.h"
#include "sim/report/summary.h"

namespace quire::sim {

enum class PlanObjective : uint8_t { kDevices, kDollars };

struct PlanOptions {
  PoolOptions base;  // model and engine settings; hardware and parallelism come from the lists
  std::vector<Hardware> hardware;
  std::vector<int32_t> tensor_parallel = {1, 2, 4, 8};
  std::vector<int32_t> max_num_batched_tokens = {2048, 8192};
  std::vector<int32_t> max_num_seqs = {256};
  std::vector<NumberFormat> kv_formats;  // of the KV cache; empty means the model's alone
  // How many drafts a request has at most in one step; PoolOptions::draft_acceptance is the share
  // that is accepted.
  std::vector<int32_t> num_speculative_tokens = {0};
  RouterOptions router;
  SloLimits limits;
  double good_share = 0.95;  // share of the requests that must meet the SLOs
  int32_t max_devices = 256;
  PlanObjective objective = PlanObjective::kDevices;
  int64_t admission_ns = 0;
  int64_t memory_bytes = kNever;  // as in FleetSpec
  bool merge_blocks = false;      // block_merging.h
};

struct PlanCandidate {
  std::string hardware;
  int32_t tensor_parallel = 1;
  int32_t max_num_batched_tokens = 0;
  int32_t max_num_seqs = 0;
  std::string kv_format;
  int32_t num_speculative_tokens = 0;
  int32_t num_replicas = 0;  // 0 means that no number within max_devices is enough
  int32_t num_devices = 0;
  double dollars_per_hour = 0;  // 0 means that the device's price is unknown
  // No other candidate has fewer devices (dollars) and a lower p99 of TTFT and TPOT.
  bool on_frontier = false;
  Summary summary;       // with num_replicas, or with the most replicas that were tried
  std::string obstacle;  // why no number is enough, if num_replicas is 0
  std::string why_not_fewer;
};

struct DeploymentPlan {
  std::vector<PlanCandidate> candidates;  // best first; those that meet the SLOs before others
  int64_t num_simulations = 0;
  bool meets_slos() const { return !candidates.empty() && candidates[0].num_replicas > 0; }
};

struct PlanProgress {
  int32_t num_done = 0;  // candidates that are finished
  int32_t num_candidates = 0;
  std::string what;  // what is simulated next
};

// Plans a deployment and calls `progress` before each simulation. Returns an error that says what
// was expected of the options.
Result<DeploymentPlan> plan_deployment(
    const Workload& workload, const PlanOptions& options,
    const std::function<void(const PlanProgress&)>& progress = {});

// Says which candidate came closest if none meets the SLOs, and what it lacks.
std::string closest_text(const DeploymentPlan& plan);
std::string plan_text(const DeploymentPlan& plan, const PlanOptions& options);
std::string plan_json(const DeploymentPlan& plan);
std::string plan_html(const DeploymentPlan& plan, const PlanOptions& options);

}  // namespace quire::sim
