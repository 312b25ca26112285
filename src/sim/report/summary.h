// A Summary is a run in figures. Definitions are those of `bench serve` (docs/metrics.md,
// docs/simulator.md).
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

// One figure of a whole run must be within so many milliseconds.
struct FigureLimit {
  Metric metric = Metric::kTtft;
  Statistic statistic = Statistic::kP99;
  double ms = 0;
};

// Limits are in milliseconds. A request is good when it meets every limit given for requests; one
// token counts TPOT as 0.
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
  kStable,      // nobody waits for long
  kBacklogged,  // requests wait, but what waits does not grow
  kOverloaded,  // what waits grows as long as requests come, or some are refused
};
std::string_view to_string(Verdict verdict);

// Misses counts the requests that missed one limit, by what most of their time went to.
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
  double peak_output_throughput = 0;  // of the best slice of the timeline
  Percentiles ttft_ms, tpot_ms, itl_ms, e2e_ms, queue_ms;
  std::array<double, kNumCauses> ttft_share{}, decode_share{};  // of all time, sum to 1
  SloLimits limits;
  double goodput = 0;  // requests per second that meet all limits
  double good_share = 0;
  Misses ttft_misses, tpot_misses, e2e_misses;

  ReplicaCounters counters;                   // of all replicas
  double hit_rate = 0;                        // of the prompt tokens of completed requests
  double wasted_kv_share = 0;                 // of the KV that requests hold: holds no token
  double busy_share = 0;                      // share of the paid replica time
  double mean_running = 0, mean_waiting = 0;  // per replica, while busy
  double peak_kv_usage = 0;                   // that of the fullest replica
  int64_t kv_tokens = 0;                      // that fit into the cache of the smallest replica
  Verdict verdict = Verdict::kStable;
  std::string verdict_reason;

  int32_t num_replicas = 0;  // most at once
  double device_hours = 0;
  double dollars = 0;
  double dollars_per_m_output_tokens = 0;
  double joules = 0;  // at full power while paid for
};

// Returns what the run's figure is that a limit is about.
double figure_ms(const Summary& summary, const FigureLimit& limit);
bool meets_figures(const Summary& summary);

Summary summarize(const FleetSpec& spec, const RunResult& result, const SloLimits& limits);

}  // namespace quire::sim
