// The planner finds the fewest (or cheapest) devices that serve a workload within SLOs, by
// simulating deployments.
//
// For every machine, tensor parallelism and batch setting it searches the smallest number of
// replicas that meets the SLOs, by doubling and then bisection: more replicas are taken to be no
// worse.
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
  PoolOptions base;  // model, engine settings; hardware and parallelism come from the lists
  std::vector<Hardware> hardware;
  std::vector<int32_t> tensor_parallel = {1, 2, 4, 8};
  std::vector<int32_t> max_num_batched_tokens = {2048, 8192};
  std::vector<int32_t> max_num_seqs = {256};
  std::vector<NumberFormat> kv_formats;  // of the KV cache; empty: the model's alone
  // A request has at most so many drafts in one step, of which PoolOptions::draft_acceptance comes
  // out.
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
  int32_t num_replicas = 0;  // 0: no number within max_devices is enough
  int32_t num_devices = 0;
  double dollars_per_hour = 0;  // 0: the price of the device is not known
  bool on_frontier = false;     // none has fewer devices (dollars) and a lower p99 of TTFT and TPOT
  Summary summary;              // of num_replicas, or of the most that were tried
  std::string obstacle;         // why there is none, when num_replicas is 0
  std::string why_not_fewer;
};

struct DeploymentPlan {
  std::vector<PlanCandidate> candidates;  // best first; those that serve before others
  int64_t num_simulations = 0;
  bool meets_slos() const { return !candidates.empty() && candidates[0].num_replicas > 0; }
};

struct PlanProgress {
  int32_t num_done = 0;  // of the candidates
  int32_t num_candidates = 0;
  std::string what;  // what is simulated next
};

// `progress` is told before each simulation. The error says what was expected of the options.
Result<DeploymentPlan> plan_deployment(
    const Workload& workload, const PlanOptions& options,
    const std::function<void(const PlanProgress&)>& progress = {});

// Says what came closest when nothing is enough, and what it lacks.
std::string closest_text(const DeploymentPlan& plan);
std::string plan_text(const DeploymentPlan& plan, const PlanOptions& options);
std::string plan_json(const DeploymentPlan& plan);
std::string plan_html(const DeploymentPlan& plan, const PlanOptions& options);

}  // namespace quire::sim
