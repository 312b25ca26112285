#include <iterator>

#include "sim/report/report.h"

namespace quire::sim {
namespace {

class Text {
 public:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
    out += '\n';
  }
  std::string out;
};

void latency_row(Text& text, const char* name, const Percentiles& p) {
  text.line("{:<12} {:>11.2f} {:>11.2f} {:>11.2f} {:>11.2f} {:>11.2f}", name, p.mean, p.p50, p.p90,
            p.p95, p.p99);
}

void share_row(Text& text, const char* name, const std::array<double, kNumCauses>& share) {
  text.line("{:<12} {:>11.1f} {:>11.1f} {:>11.1f} {:>11.1f} {:>11.1f}", name, 100 * share[0],
            100 * share[1], 100 * share[2], 100 * share[3], 100 * share[4]);
}

void miss_row(Text& text, const char* name, const std::optional<double>& limit_ms,
              const Misses& misses) {
  if (!limit_ms) return;
  text.line("{:<12} {:>11} {:>11} {:>11} {:>11} {:>11}   {} missed {:g} ms", name,
            misses.by_cause[0], misses.by_cause[1], misses.by_cause[2], misses.by_cause[3],
            misses.by_cause[4], misses.num_missed, *limit_ms);
}

void figure_rows(Text& text, const Summary& s) {
  for (const FigureLimit& limit : s.limits.figures) {
    const double ms = figure_ms(s, limit);
    text.line("SLO              {} {} {:.1f} ms, at most {:g}: {}", to_string(limit.statistic),
              to_string(limit.metric), ms, limit.ms, ms <= limit.ms ? "kept" : "missed");
  }
}

void slo_rows(Text& text, const Summary& s) {
  if (!s.limits.any()) return;
  text.line("");
  figure_rows(text, s);
  if (!s.limits.any_of_requests()) return;
  text.line("goodput          {:.2f} requests/s, {:.1f} % of requests", s.goodput,
            100 * s.good_share);
  text.line("{:<12} {:>11} {:>11} {:>11} {:>11} {:>11}", "SLO misses", "queue", "KV", "compute",
            "host", "network");
  miss_row(text, "TTFT", s.limits.ttft_ms, s.ttft_misses);
  miss_row(text, "TPOT", s.limits.tpot_ms, s.tpot_misses);
  miss_row(text, "E2E", s.limits.e2e_ms, s.e2e_misses);
}

void replica_rows(Text& text, const Summary& s) {
  const ReplicaCounters& c = s.counters;
  text.line(
      "replicas         {} at most, {:.1f} % of the time busy, {:.1f} running and {:.1f} waiting "
      "each meanwhile",
      s.num_replicas, 100 * s.busy_share, s.mean_running, s.mean_waiting);
  text.line(
      "steps            {} of {:.1f} tokens", c.num_steps,
      static_cast<double>(c.num_tokens) / static_cast<double>(std::max<int64_t>(c.num_steps, 1)));
  text.line(
      "KV cache         {} tokens fit, {:.1f} % used at most, {} preemptions, {} tokens computed "
      "again",
      s.kv_tokens, 100 * s.peak_kv_usage, c.num_preemptions, c.num_recomputed_tokens);
  text.line("prefix cache     {:.1f} % of prompt tokens hit", 100 * s.hit_rate);
  if (c.tier_hits > 0) text.line("offload tier     {} tokens read back", c.tier_hits);
  if (c.num_received > 0) text.line("KV transfers     {} requests", c.num_received);
  if (s.dollars > 0) {
    text.line("cost             {:.3f} device hours, ${:.4f}, ${:.4f} per million output tokens",
              s.device_hours, s.dollars, s.dollars_per_m_output_tokens);
  } else {
    text.line("cost             {:.3f} device hours, no price known", s.device_hours);
  }
  text.line("energy           {:.1f} kJ at full power", s.joules * 1e-3);
}

}  // namespace

std::string report_text(const Summary& s, const Description& description) {
  Text text;
  for (const auto& [label, value] : description) text.line("{:<16} {}", label, value);
  text.line("requests         {} completed, {} refused, {} too long, {} unfinished in {:.3f} s",
            s.num_completed, s.num_refused, s.num_too_long, s.num_unfinished, s.duration_s);
  text.line("tokens           {} in ({} cached), {} out", s.input_tokens, s.cached_tokens,
            s.output_tokens);
  text.line(
      "throughput       {:.2f} requests/s, {:.1f} output tokens/s (best slice {:.1f}), {:.1f} "
      "tokens/s",
      s.request_throughput, s.output_throughput, s.peak_output_throughput, s.total_throughput);
  text.line("verdict          {}: {}", to_string(s.verdict), s.verdict_reason);
  text.line("");
  text.line("{:<12} {:>11} {:>11} {:>11} {:>11} {:>11}", "ms", "mean", "p50", "p90", "p95", "p99");
  latency_row(text, "TTFT", s.ttft_ms);
  latency_row(text, "TPOT", s.tpot_ms);
  latency_row(text, "ITL", s.itl_ms);
  latency_row(text, "E2E", s.e2e_ms);
  latency_row(text, "queue", s.queue_ms);
  text.line("");
  text.line("{:<12} {:>11} {:>11} {:>11} {:>11} {:>11}", "% of time", "queue", "KV", "compute",
            "host", "network");
  share_row(text, "to 1st token", s.ttft_share);
  share_row(text, "decoding", s.decode_share);
  slo_rows(text, s);
  text.line("");
  replica_rows(text, s);
  return text.out;
}

std::string report_csv(const Workload& workload, const RunResult& result) {
  std::string out =
      "request,outcome,replica,session,input_tokens,output_tokens,cached_tokens,preemptions,"
      "arrival_ms,first_scheduled_ms,first_token_ms,last_token_ms,ttft_ms,tpot_ms,e2e_ms";
  for (const char* part : {"ttft", "decode"}) {
    for (int cause = 0; cause < kNumCauses; ++cause) {
      fmt::format_to(std::back_inserter(out), ",{}_{}_ms", part,
                     to_string(static_cast<Cause>(cause)));
    }
  }
  out += '\n';
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  for (size_t i = 0; i < result.records.size(); ++i) {
    const RequestRecord& r = result.records[i];
    const bool done = r.outcome == Outcome::kCompleted;
    fmt::format_to(std::back_inserter(out),
                   "{},{},{},{},{},{},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f}", i,
                   to_string(r.outcome), r.replica, workload.requests[i].session, r.input_tokens,
                   r.output_tokens, r.cached_tokens, r.num_preemptions, ms(r.arrival_ns),
                   ms(r.first_scheduled_ns), ms(r.first_token_ns), ms(r.last_token_ns),
                   done ? ms(r.ttft_ns()) : 0.0, done ? r.tpot_ns() * 1e-6 : 0.0,
                   done ? ms(r.e2e_ns()) : 0.0);
    for (const CauseTimes* parts : {&r.ttft_parts, &r.decode_parts}) {
      for (const int64_t part : *parts) {
        fmt::format_to(std::back_inserter(out), ",{:.6f}", ms(part));
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace quire::sim
