#include "sim/report/summary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/report/verdict.h"

namespace quire::sim {
namespace {

double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

Percentiles percentiles(std::vector<double> values) {
  Percentiles p;
  if (values.empty()) return p;
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  for (const double v : values) p.mean += v / n;
  for (const double v : values) p.deviation += (v - p.mean) * (v - p.mean) / n;
  p.deviation = std::sqrt(p.deviation);
  p.p50 = quantile(values, 0.50);
  p.p90 = quantile(values, 0.90);
  p.p95 = quantile(values, 0.95);
  p.p99 = quantile(values, 0.99);
  return p;
}

Percentiles percentiles(const DurationHistogram& histogram) {
  return {.mean = histogram.mean_ns() * 1e-6,
          .deviation = histogram.deviation_ns() * 1e-6,
          .p50 = histogram.quantile_ns(0.50) * 1e-6,
          .p90 = histogram.quantile_ns(0.90) * 1e-6,
          .p95 = histogram.quantile_ns(0.95) * 1e-6,
          .p99 = histogram.quantile_ns(0.99) * 1e-6};
}

void count_miss(Misses& misses, const CauseTimes& parts) {
  ++misses.num_missed;
  const auto largest = std::max_element(parts.begin(), parts.end()) - parts.begin();
  ++misses.by_cause[static_cast<size_t>(largest)];
}

CauseTimes operator+(CauseTimes a, const CauseTimes& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

bool beyond(double value_ns, const std::optional<double>& limit_ms) {
  return limit_ms && value_ns > *limit_ms * 1e6;
}

// Requests has sums and distributions over requests.
class Requests {
 public:
  Requests(const RunResult& result, Summary& summary) : summary_(summary) {
    for (const RequestRecord& record : result.records) add(record);
    summary.ttft_ms = percentiles(std::move(ttft_));
    summary.tpot_ms = percentiles(std::move(tpot_));
    summary.e2e_ms = percentiles(std::move(e2e_));
    summary.queue_ms = percentiles(std::move(queue_));
    share(ttft_parts_, summary.ttft_share);
    share(decode_parts_, summary.decode_share);
  }

 private:
  void add(const RequestRecord& r) {
    ++summary_.num_requests;
    summary_.num_refused += r.outcome == Outcome::kRefused;
    summary_.num_too_long += r.outcome == Outcome::kTooLong;
    summary_.num_unfinished += r.outcome == Outcome::kUnfinished;
    if (r.outcome != Outcome::kCompleted) return;
    ++summary_.num_completed;
    summary_.input_tokens += r.input_tokens;
    summary_.output_tokens += r.output_tokens;
    summary_.cached_tokens += r.cached_tokens;
    ttft_.push_back(static_cast<double>(r.ttft_ns()) * 1e-6);
    e2e_.push_back(static_cast<double>(r.e2e_ns()) * 1e-6);
    if (r.output_tokens > 1) tpot_.push_back(r.tpot_ns() * 1e-6);
    queue_.push_back(static_cast<double>(r.ttft_parts[static_cast<size_t>(Cause::kQueue)] +
                                         r.ttft_parts[static_cast<size_t>(Cause::kKv)]) *
                     1e-6);
    ttft_parts_ = ttft_parts_ + r.ttft_parts;
    decode_parts_ = decode_parts_ + r.decode_parts;
    const SloLimits& limits = summary_.limits;
    if (beyond(static_cast<double>(r.ttft_ns()), limits.ttft_ms)) {
      count_miss(summary_.ttft_misses, r.ttft_parts);
    }
    if (beyond(r.tpot_ns(), limits.tpot_ms)) count_miss(summary_.tpot_misses, r.decode_parts);
    if (beyond(static_cast<double>(r.e2e_ns()), limits.e2e_ms)) {
      count_miss(summary_.e2e_misses, r.ttft_parts + r.decode_parts);
    }
    summary_.goodput += meets(r, limits) ? 1 : 0;
  }

  static void share(const CauseTimes& parts, std::array<double, kNumCauses>& out) {
    double total = 0;
    for (const int64_t part : parts) total += static_cast<double>(part);
    for (size_t i = 0; i < parts.size() && total > 0; ++i) {
      out[i] = static_cast<double>(parts[i]) / total;
    }
  }

  Summary& summary_;
  std::vector<double> ttft_, tpot_, e2e_, queue_;
  CauseTimes ttft_parts_{}, decode_parts_{};
};

void add_replicas(const FleetSpec& spec, const RunResult& result, Summary& s) {
  double paid_ns = 0;
  for (const ReplicaRun& replica : result.replicas) {
    const PoolSpec& pool = spec.pools[static_cast<size_t>(replica.pool)];
    s.counters.add(replica.counters);
    s.peak_kv_usage =
        std::max(s.peak_kv_usage, static_cast<double>(replica.counters.peak_kv_blocks) /
                                      std::max(1, replica.counters.num_kv_blocks));
    const int64_t kv_tokens =
        int64_t{replica.counters.num_kv_blocks} * pool.replica.kv_spec.block_size;
    s.kv_tokens = s.kv_tokens == 0 ? kv_tokens : std::min(s.kv_tokens, kv_tokens);
    paid_ns += static_cast<double>(replica.paid_ns);
    const double hours =
        static_cast<double>(replica.paid_ns) * 1e-9 / 3600 * pool.devices_per_replica;
    s.device_hours += hours;
    s.dollars += hours * pool.price_per_device_hour;
    s.joules += hours * 3600 * pool.watts_per_device;
  }
  s.num_replicas = result.most_replicas;
  s.busy_share = paid_ns > 0 ? static_cast<double>(s.counters.busy_ns) / paid_ns : 0;
  if (s.counters.reserved_slot_steps > 0) {
    s.wasted_kv_share = static_cast<double>(s.counters.unused_slot_steps) /
                        static_cast<double>(s.counters.reserved_slot_steps);
  }
  if (s.input_tokens > 0) {
    s.hit_rate = static_cast<double>(s.cached_tokens) / static_cast<double>(s.input_tokens);
  }
}

void add_timeline(const Timeline& timeline, Summary& s) {
  double running = 0, waiting = 0, busy = 0;
  int64_t most = 0;
  for (const TimeSlice& slice : timeline.slices()) {
    running += static_cast<double>(slice.running_ns);
    waiting += static_cast<double>(slice.waiting_ns);
    busy += static_cast<double>(slice.busy_ns);
    most = std::max(most, slice.output_tokens);
  }
  s.mean_running = busy > 0 ? running / busy : 0;
  s.mean_waiting = busy > 0 ? waiting / busy : 0;
  s.peak_output_throughput =
      static_cast<double>(most) / (static_cast<double>(timeline.slice_ns()) * 1e-9);
}

}  // namespace

std::string_view to_string(Metric metric) {
  constexpr std::string_view kNames[] = {"TTFT", "TPOT", "ITL", "E2E"};
  return kNames[static_cast<size_t>(metric)];
}

std::string_view to_string(Statistic statistic) {
  constexpr std::string_view kNames[] = {"mean", "p50", "p90", "p95", "p99"};
  return kNames[static_cast<size_t>(statistic)];
}

double figure_ms(const Summary& s, const FigureLimit& limit) {
  const Percentiles* const all[] = {&s.ttft_ms, &s.tpot_ms, &s.itl_ms, &s.e2e_ms};
  const Percentiles& p = *all[static_cast<size_t>(limit.metric)];
  const double values[] = {p.mean, p.p50, p.p90, p.p95, p.p99};
  return values[static_cast<size_t>(limit.statistic)];
}

bool meets_figures(const Summary& summary) {
  const std::vector<FigureLimit>& figures = summary.limits.figures;
  return std::all_of(figures.begin(), figures.end(), [&summary](const FigureLimit& limit) {
    return figure_ms(summary, limit) <= limit.ms;
  });
}

std::string_view to_string(Verdict verdict) {
  constexpr std::string_view kNames[] = {"stable", "backlogged", "overloaded"};
  return kNames[static_cast<size_t>(verdict)];
}

bool meets(const RequestRecord& r, const SloLimits& limits) {
  return r.outcome == Outcome::kCompleted &&
         !beyond(static_cast<double>(r.ttft_ns()), limits.ttft_ms) &&
         !beyond(r.tpot_ns(), limits.tpot_ms) &&
         !beyond(static_cast<double>(r.e2e_ns()), limits.e2e_ms);
}

Summary summarize(const FleetSpec& spec, const RunResult& result, const SloLimits& limits) {
  Summary s;
  s.limits = limits;
  Requests(result, s);
  s.duration_s = static_cast<double>(result.end_ns) * 1e-9;
  const double seconds = std::max(s.duration_s, 1e-9);
  s.good_share = s.num_requests > 0 ? s.goodput / static_cast<double>(s.num_requests) : 0;
  s.goodput /= seconds;
  s.request_throughput = static_cast<double>(s.num_completed) / seconds;
  s.output_throughput = static_cast<double>(s.output_tokens) / seconds;
  s.total_throughput = static_cast<double>(s.input_tokens + s.output_tokens) / seconds;
  s.itl_ms = percentiles(result.stats.itl);
  add_replicas(spec, result, s);
  add_timeline(result.stats.timeline, s);
  if (s.output_tokens > 0) {
    s.dollars_per_m_output_tokens = s.dollars / static_cast<double>(s.output_tokens) * 1e6;
  }
  judge(result, s);
  return s;
}

}  // namespace quire::sim
