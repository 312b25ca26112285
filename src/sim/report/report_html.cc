#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/report/html_page.h"
#include "sim/report/report.h"
#include "sim/report/svg_plot.h"

namespace quire::sim {
namespace {

using Points = std::vector<std::pair<double, double>>;

// Returns one value per slice of the timeline.
template <typename Value>
Points over_time(const Timeline& timeline, Value value) {
  const double slice_s = static_cast<double>(timeline.slice_ns()) * 1e-9;
  Points points;
  double at_s = 0;
  for (const TimeSlice& slice : timeline.slices()) {
    points.emplace_back(at_s, value(slice));
    at_s += slice_s;
  }
  return points;
}

// Returns the distribution function, at 200 quantiles.
Points cumulative(std::vector<double> values) {
  Points points;
  if (values.empty()) return points;
  std::sort(values.begin(), values.end());
  for (int i = 0; i <= 200; ++i) {
    const double q = i / 200.0;
    const auto rank = static_cast<size_t>(q * static_cast<double>(values.size() - 1));
    points.emplace_back(std::max(values[rank], 1e-3), 100 * q);
  }
  return points;
}

std::string time_plots(const RunResult& result, int32_t num_replicas) {
  const Timeline& timeline = result.stats.timeline;
  const double slice_s = static_cast<double>(timeline.slice_ns()) * 1e-9;
  const double slice_ns = static_cast<double>(timeline.slice_ns());
  const auto per_second = [slice_s](int64_t n) { return static_cast<double>(n) / slice_s; };
  const auto mean = [slice_ns](int64_t sum) { return static_cast<double>(sum) / slice_ns; };
  std::string out;
  out += svg_plot(
      {.title = "Requests", .x_label = "seconds", .y_label = "per second"},
      {{"arrived",
        over_time(timeline, [&](const TimeSlice& s) { return per_second(s.num_arrivals); })},
       {"finished",
        over_time(timeline, [&](const TimeSlice& s) { return per_second(s.num_finished); })}});
  out += svg_plot(
      {.title = "Tokens", .x_label = "seconds", .y_label = "per second"},
      {{"generated",
        over_time(timeline, [&](const TimeSlice& s) { return per_second(s.output_tokens); })},
       {"of prompts computed",
        over_time(timeline, [&](const TimeSlice& s) { return per_second(s.prompt_tokens); })}});
  out += svg_plot(
      {.title = "Requests in the engines",
       .x_label = "seconds",
       .y_label = "requests",
       .area = true},
      {{"running", over_time(timeline, [&](const TimeSlice& s) { return mean(s.running_ns); })},
       {"waiting", over_time(timeline, [&](const TimeSlice& s) { return mean(s.waiting_ns); })}});
  out += svg_plot({.title = "Replicas busy",
                   .x_label = "seconds",
                   .y_label = "replicas",
                   .y_max = static_cast<double>(num_replicas)},
                  {{"", over_time(timeline, [&](const TimeSlice& s) { return mean(s.busy_ns); })}});
  out += svg_plot(
      {.title = "Tokens in the KV of running requests", .x_label = "seconds", .y_label = "tokens"},
      {{"", over_time(timeline, [&](const TimeSlice& s) { return mean(s.kv_token_ns); })}});
  return out;
}

std::string distributions(const RunResult& result) {
  std::vector<double> ttft, tpot, e2e;
  for (const RequestRecord& r : result.records) {
    if (r.outcome != Outcome::kCompleted) continue;
    ttft.push_back(static_cast<double>(r.ttft_ns()) * 1e-6);
    e2e.push_back(static_cast<double>(r.e2e_ns()) * 1e-6);
    if (r.output_tokens > 1) tpot.push_back(r.tpot_ns() * 1e-6);
  }
  if (ttft.empty()) return {};
  return svg_plot({.title = "Latencies",
                   .x_label = "milliseconds, logarithmic",
                   .y_label = "% of requests below",
                   .log_x = true},
                  {{"TTFT", cumulative(std::move(ttft))},
                   {"TPOT", cumulative(std::move(tpot))},
                   {"E2E", cumulative(std::move(e2e))}});
}

std::vector<std::string> cause_names() {
  std::vector<std::string> names;
  names.reserve(kNumCauses);
  for (int i = 0; i < kNumCauses; ++i) names.emplace_back(to_string(static_cast<Cause>(i)));
  return names;
}

std::string attribution(const Summary& s) {
  const auto bar = [](const char* name, const std::array<double, kNumCauses>& share,
                      double mean_ms) {
    return Bar{.name = name,
               .parts = {share.begin(), share.end()},
               .note = fmt::format("{:.1f} ms", mean_ms)};
  };
  std::string out = svg_bars("Where time went, on average", cause_names(),
                             {bar("first token", s.ttft_share, s.ttft_ms.mean),
                              bar("decoding", s.decode_share, s.e2e_ms.mean - s.ttft_ms.mean)});
  if (!s.limits.any_of_requests()) return out;
  std::vector<Bar> bars;
  const auto add = [&bars](const char* name, const std::optional<double>& limit,
                           const Misses& misses) {
    if (!limit) return;
    bars.push_back({.name = fmt::format("{} > {:g} ms", name, *limit),
                    .parts = {misses.by_cause.begin(), misses.by_cause.end()},
                    .note = fmt::format("{} missed", misses.num_missed)});
  };
  add("TTFT", s.limits.ttft_ms, s.ttft_misses);
  add("TPOT", s.limits.tpot_ms, s.tpot_misses);
  add("E2E", s.limits.e2e_ms, s.e2e_misses);
  return out + svg_bars("Missed SLOs, by what most of the time went to", cause_names(), bars);
}

std::string latency_table(const Summary& s) {
  std::string out =
      "<table><tr><th>ms</th><th>mean</th><th>p50</th><th>p90</th><th>p95</th><th>p99</th></tr>";
  const auto row = [&out](const char* name, const Percentiles& p) {
    fmt::format_to(std::back_inserter(out),
                   "<tr><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.2f}</td>"
                   "<td>{:.2f}</td></tr>",
                   name, p.mean, p.p50, p.p90, p.p95, p.p99);
  };
  row("TTFT", s.ttft_ms);
  row("TPOT", s.tpot_ms);
  row("ITL", s.itl_ms);
  row("E2E", s.e2e_ms);
  row("queue", s.queue_ms);
  return out + "</table>";
}

}  // namespace

std::string report_html(const Summary& s, const RunResult& result, const Description& description) {
  std::string body = fmt::format("<p class=\"verdict {0}\"><b>{0}</b> {1}</p>",
                                 to_string(s.verdict), escape_html(s.verdict_reason));
  body += html_cards(
      {{"requests/s", fmt::format("{:.2f}", s.request_throughput)},
       {"output tokens/s", fmt::format("{:.0f}", s.output_throughput)},
       {"TTFT p50", fmt::format("{:.1f} ms", s.ttft_ms.p50)},
       {"TPOT p50", fmt::format("{:.2f} ms", s.tpot_ms.p50)},
       {"good requests", s.limits.any_of_requests() ? fmt::format("{:.1f} %", 100 * s.good_share)
                                                    : std::string("no SLO given")},
       {"cost", s.dollars > 0 ? fmt::format("${:.3f}", s.dollars) : std::string("no price")},
       {"device hours", fmt::format("{:.3f}", s.device_hours)},
       {"prefix cache hits", fmt::format("{:.1f} %", 100 * s.hit_rate)}});
  body += latency_table(s);
  body += "<div class=\"plots\">" + attribution(s) + distributions(result) +
          time_plots(result, s.num_replicas) + "</div>";
  body += "<pre>" + escape_html(report_text(s, description)) + "</pre>";
  return html_page("Quire simulation", description, body);
}

}  // namespace quire::sim
