// A Summary holds the figures of a run. Their definitions are those of `bench serve`
// (docs/metrics.md, docs/simulator.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fleet/fleet.h"

namespace quire::sim {

enum class Metric : uint8_t { kTtft, kTpot, kItl, kE2e };
std::string_view to_string(Metric metric);

enum class Statistic : uint8_t { kMean, kP50, kP90, kP95, kP99 };
std::string_view to_string(Statistic statistic);

// A FigureLimit bounds one figure of a whole run.
struct FigureLimit {
  Metric metric = Metric::kTtft;
  Statistic statistic = Statistic::kP99;
  double ms = 0;
};

// Limits are in milliseconds. A request is good if it meets all limits of requests; its TPOT is 0
// if it has one token.
struct SloLimits {
  std::optional<double> ttft_ms, tpot_ms, e2e_ms;
  std::vector<FigureLimit> figures = {};
  bool any() const { return any_of_requests() || !figures.empty(); }
  bool any_of_requests() const { return ttft_ms || tpot_ms || e2e_ms; }
};
bool meets(const RequestRecord& record, const SloLimits& limits);

struct Percentiles {
  double mean = 0, deviation = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

enum class Verdict : uint8_t {
  kStable,      // no request waits for long
  kBacklogged,  // requests wait, but their number does not grow
  // The number of waiting requests grows as long as requests arrive, or some are refused.
  kOverloaded,
};
std::string_view to_string(Verdict verdict);

// Misses counts the requests that missed one limit, by the cause that took most of their time.
struct Misses {
  int64_t num_missed = 0;
  std::array<int64_t, kNumCauses> by_cause{};
};

struct Summary {
  int64_t num_requests = 0, num_completed = 0, num_refused = 0, num_too_long = 0,
          num_unfinished = 0;
  int64_t input_tokens = 0, output_tokens = 0, cached_tokens = 0;  // of completed requests
  double duration_s = 0;
  double request_throughput = 0, output_throughput = 0, total_throughput = 0;  // per second
  double peak_output_throughput = 0;  // in the best slice of the timeline
  Percentiles ttft_ms, tpot_ms, itl_ms, e2e_ms, queue_ms;
  // Shares of all time, which sum to 1.
  std::array<double, kNumCauses> ttft_share{}, decode_share{};
  SloLimits limits;
  double goodput = 0;  // requests per second that meet all limits
  double good_share = 0;
  Misses ttft_misses, tpot_misses, e2e_misses;

  ReplicaCounters counters;    // over all replicas
  double hit_rate = 0;         // share of the prompt tokens of completed requests
  double wasted_kv_share = 0;  // share of the KV that requests hold that has no token
  double busy_share = 0;       // share of the paid replica time
  double mean_running = 0, mean_waiting = 0;  // per replica, while busy
  double peak_kv_usage = 0;                   // of the fullest replica
  int64_t kv_tokens = 0;  // tokens that fit into the cache of the smallest replica
  Verdict verdict = Verdict::kStable;
  std::string verdict_reason;

  int32_t num_replicas = 0;  // the greatest number at one time
  double device_hours = 0;
  double dollars = 0;
  double dollars_per_m_output_tokens = 0;
  double joules = 0;  // for full power during all paid time
};

// Returns the run's figure that a limit bounds.
double figure_ms(const Summary& summary, const FigureLimit& limit);
bool meets_figures(const Summary& summary);

Summary summarize(const FleetSpec& spec, const RunResult& result, const SloLimits& limits);

}  // namespace quire::sim
