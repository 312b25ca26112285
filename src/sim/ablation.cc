#include "sim/ablation.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "sim/report/html_page.h"
#include "sim/report/svg_plot.h"

namespace quire::sim {
namespace {

namespace json = boost::json;

constexpr ServingMode kModes[] = {
    {"static batches, contiguous", BatchingMode::kStaticBatches, KvReservation::kContiguousMaxLen},
    {"static batches, paged", BatchingMode::kStaticBatches, KvReservation::kPaged},
    {"continuous, contiguous", BatchingMode::kContinuous, KvReservation::kContiguousMaxLen},
    {"continuous, paged", BatchingMode::kContinuous, KvReservation::kPaged},
};

double ratio(std::span<const ModeRun> runs, const ModeRun& run) {
  const double base = runs.front().summary.request_throughput;
  return base > 0 ? run.summary.request_throughput / base : 0;
}

template <typename Value>
Series over_time(const ModeRun& run, Value value) {
  const Timeline& timeline = run.result.stats.timeline;
  const double slice_s = static_cast<double>(timeline.slice_ns()) * 1e-9;
  Series series{.name = run.mode->name};
  double at_s = 0;
  for (const TimeSlice& slice : timeline.slices()) {
    series.points.emplace_back(at_s, value(slice));
    at_s += slice_s;
  }
  return series;
}

std::string bars(const char* title, std::span<const ModeRun> runs, const char* unit,
                 double (*value)(const Summary&)) {
  std::vector<Bar> all;
  for (const ModeRun& run : runs) {
    const double v = value(run.summary);
    all.push_back({.name = run.mode->name, .parts = {v}, .note = fmt::format("{:.2f}{}", v, unit)});
  }
  return svg_bars(title, {""}, all);
}

std::string plots(std::span<const ModeRun> runs) {
  std::string out =
      bars("Requests per second", runs, "", [](const Summary& s) { return s.request_throughput; });
  out += bars("Reserved KV that holds no token", runs, " %",
              [](const Summary& s) { return 100 * s.wasted_kv_share; });
  std::vector<Series> running, finished;
  for (const ModeRun& run : runs) {
    const auto slice_ns = static_cast<double>(run.result.stats.timeline.slice_ns());
    running.push_back(over_time(run, [slice_ns](const TimeSlice& slice) {
      return static_cast<double>(slice.running_ns) / slice_ns;
    }));
    finished.push_back(over_time(run, [total = int64_t{0}](const TimeSlice& slice) mutable {
      return static_cast<double>(total += slice.num_finished);
    }));
  }
  out += svg_plot({.title = "Requests in a step", .x_label = "seconds", .y_label = "requests"},
                  running);
  out += svg_plot({.title = "Requests answered", .x_label = "seconds", .y_label = "requests"},
                  finished);
  return out;
}

}  // namespace

std::span<const ServingMode> serving_modes() { return kModes; }

Result<std::vector<ModeRun>> run_modes(const Workload& workload, const FleetSpec& spec,
                                       const SloLimits& limits) {
  std::vector<ModeRun> runs;
  for (const ServingMode& mode : kModes) {
    FleetSpec fleet = spec;
    for (PoolSpec& pool : fleet.pools) {
      pool.replica.engine.scheduler.batching = mode.batching;
      pool.replica.engine.kv.reservation = mode.reservation;
      pool.replica.engine.kv.enable_prefix_caching = false;
    }
    QUIRE_ASSIGN_OR_RETURN(RunResult result, run(workload, fleet));
    const Summary summary = summarize(fleet, result, limits);
    runs.push_back({.mode = &mode, .result = std::move(result), .summary = summary});
  }
  return runs;
}

std::string ablation_text(std::span<const ModeRun> runs, const Description& description) {
  std::string out;
  for (const auto& [label, value] : description) {
    fmt::format_to(std::back_inserter(out), "{:<16} {}\n", label, value);
  }
  fmt::format_to(std::back_inserter(out), "\n{:<28} {:>10} {:>7} {:>13} {:>9} {:>10} {:>9} {:>9}\n",
                 "", "requests/s", "ratio", "out tokens/s", "in a step", "TTFT p50 s", "E2E p50 s",
                 "KV lost %");
  for (const ModeRun& run : runs) {
    const Summary& s = run.summary;
    fmt::format_to(std::back_inserter(out),
                   "{:<28} {:>10.2f} {:>7.2f} {:>13.0f} {:>9.1f} {:>10.2f} {:>9.2f} {:>9.1f}\n",
                   run.mode->name, s.request_throughput, ratio(runs, run), s.output_throughput,
                   s.mean_running, s.ttft_ms.p50 * 1e-3, s.e2e_ms.p50 * 1e-3,
                   100 * s.wasted_kv_share);
  }
  return out;
}

std::string ablation_json(std::span<const ModeRun> runs) {
  json::array rows;
  for (const ModeRun& run : runs) {
    const Summary& s = run.summary;
    json::object row;
    row["mode"] = run.mode->name;
    row["completed"] = s.num_completed;
    row["request_throughput"] = s.request_throughput;
    row["ratio"] = ratio(runs, run);
    row["output_throughput"] = s.output_throughput;
    row["mean_running"] = s.mean_running;
    row["wasted_kv_share"] = s.wasted_kv_share;
    row["median_ttft_ms"] = s.ttft_ms.p50;
    row["median_tpot_ms"] = s.tpot_ms.p50;
    row["median_e2el_ms"] = s.e2e_ms.p50;
    row["p99_e2el_ms"] = s.e2e_ms.p99;
    rows.push_back(std::move(row));
  }
  return json::serialize(json::object{{"modes", std::move(rows)}}) + "\n";
}

std::string ablation_html(std::span<const ModeRun> runs, const Description& description) {
  std::string table =
      "<table><tr><th></th><th>requests/s</th><th>ratio</th><th>in a step</th><th>TTFT p50</th>"
      "<th>E2E p50</th><th>KV without tokens</th></tr>";
  for (const ModeRun& run : runs) {
    const Summary& s = run.summary;
    fmt::format_to(std::back_inserter(table),
                   "<tr><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td>{:.1f}</td><td>{:.2f} s</td>"
                   "<td>{:.2f} s</td><td>{:.1f} %</td></tr>",
                   escape_html(run.mode->name), s.request_throughput, ratio(runs, run),
                   s.mean_running, s.ttft_ms.p50 * 1e-3, s.e2e_ms.p50 * 1e-3,
                   100 * s.wasted_kv_share);
  }
  table += "</table>";
  return html_page("What paging and continuous batching buy", description,
                   table + "<div class=\"plots\">" + plots(runs) + "</div>");
}

}  // namespace quire::sim
