#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "sim/report/report.h"

namespace quire::sim {
namespace {

namespace json = boost::json;

void add_latency(json::object& out, std::string_view name, const Percentiles& p) {
  const auto key = [name](std::string_view statistic) {
    return fmt::format("{}_{}_ms", statistic, name);
  };
  out[key("mean")] = p.mean;
  out[key("median")] = p.p50;
  out[key("std")] = p.deviation;
  out[key("p90")] = p.p90;
  out[key("p95")] = p.p95;
  out[key("p99")] = p.p99;
}

json::object by_cause(const std::array<double, kNumCauses>& values) {
  json::object out;
  for (size_t i = 0; i < values.size(); ++i) out[to_string(static_cast<Cause>(i))] = values[i];
  return out;
}

void add_misses(json::object& out, std::string_view name, const std::optional<double>& limit_ms,
                const Misses& misses) {
  if (!limit_ms) return;
  json::object row;
  row["limit_ms"] = *limit_ms;
  row["missed"] = misses.num_missed;
  json::object causes;
  for (size_t i = 0; i < misses.by_cause.size(); ++i) {
    causes[to_string(static_cast<Cause>(i))] = misses.by_cause[i];
  }
  row["by_cause"] = std::move(causes);
  out[name] = std::move(row);
}

json::object slo_of(const Summary& s) {
  json::object slo;
  slo["good_share"] = s.good_share;
  add_misses(slo, "ttft", s.limits.ttft_ms, s.ttft_misses);
  add_misses(slo, "tpot", s.limits.tpot_ms, s.tpot_misses);
  add_misses(slo, "e2el", s.limits.e2e_ms, s.e2e_misses);
  json::array figures;
  for (const FigureLimit& limit : s.limits.figures) {
    json::object figure;
    figure["metric"] = to_string(limit.metric);
    figure["statistic"] = to_string(limit.statistic);
    figure["limit_ms"] = limit.ms;
    figure["ms"] = figure_ms(s, limit);
    figures.push_back(std::move(figure));
  }
  if (!figures.empty()) slo["figures"] = std::move(figures);
  return slo;
}

json::object fleet_of(const Summary& s) {
  const ReplicaCounters& c = s.counters;
  json::object fleet;
  fleet["replicas"] = s.num_replicas;
  fleet["busy_share"] = s.busy_share;
  fleet["mean_running"] = s.mean_running;
  fleet["mean_waiting"] = s.mean_waiting;
  fleet["steps"] = c.num_steps;
  fleet["preemptions"] = c.num_preemptions;
  fleet["recomputed_tokens"] = c.num_recomputed_tokens;
  fleet["kv_tokens"] = s.kv_tokens;
  fleet["peak_kv_usage"] = s.peak_kv_usage;
  fleet["prefix_hit_rate"] = s.hit_rate;
  fleet["tier_hit_tokens"] = c.tier_hits;
  fleet["kv_transfers"] = c.num_received;
  fleet["device_hours"] = s.device_hours;
  fleet["dollars"] = s.dollars;
  fleet["dollars_per_million_output_tokens"] = s.dollars_per_m_output_tokens;
  fleet["joules"] = s.joules;
  return fleet;
}

}  // namespace

std::string report_json(const Summary& s, const Description& description) {
  json::object out;
  json::object what;
  for (const auto& [label, value] : description) what[label] = value;
  out["run"] = std::move(what);
  out["duration"] = s.duration_s;
  out["completed"] = s.num_completed;
  out["failed"] = s.num_refused + s.num_too_long + s.num_unfinished;
  out["refused"] = s.num_refused;
  out["too_long"] = s.num_too_long;
  out["total_input_tokens"] = s.input_tokens;
  out["total_output_tokens"] = s.output_tokens;
  out["total_cached_tokens"] = s.cached_tokens;
  out["request_throughput"] = s.request_throughput;
  if (s.limits.any_of_requests()) out["request_goodput"] = s.goodput;
  out["output_throughput"] = s.output_throughput;
  out["total_token_throughput"] = s.total_throughput;
  out["max_output_tokens_per_s"] = s.peak_output_throughput;
  add_latency(out, "ttft", s.ttft_ms);
  add_latency(out, "tpot", s.tpot_ms);
  add_latency(out, "itl", s.itl_ms);
  add_latency(out, "e2el", s.e2e_ms);
  add_latency(out, "queue", s.queue_ms);
  out["verdict"] = to_string(s.verdict);
  out["verdict_reason"] = s.verdict_reason;
  out["ttft_share"] = by_cause(s.ttft_share);
  out["decode_share"] = by_cause(s.decode_share);
  if (s.limits.any()) out["slo"] = slo_of(s);
  out["fleet"] = fleet_of(s);
  return json::serialize(out) + "\n";
}

}  // namespace quire::sim
