#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "sim/planner.h"
#include "sim/report/html_page.h"
#include "sim/report/svg_plot.h"

namespace quire::sim {
namespace {

namespace json = boost::json;

std::string name_of(const PlanCandidate& c) {
  return fmt::format("{} x{} tp{} tokens {} seqs {} kv {} drafts {}", c.hardware, c.num_replicas,
                     c.tensor_parallel, c.max_num_batched_tokens, c.max_num_seqs, c.kv_format,
                     c.num_speculative_tokens);
}

std::string figures_text(const SloLimits& limits) {
  std::string text;
  for (const FigureLimit& limit : limits.figures) {
    text += fmt::format("{}{} {} within {:g} ms", text.empty() ? "" : ", ",
                        to_string(limit.statistic), to_string(limit.metric), limit.ms);
  }
  return text;
}

std::string slo_text(const PlanOptions& options) {
  const std::string figures = figures_text(options.limits);
  if (!options.limits.any_of_requests()) return figures;
  std::string text = figures.empty() ? figures : figures + ", ";
  text += fmt::format("{:g} % of requests within", 100 * options.good_share);
  const auto add = [&text](const char* name, const std::optional<double>& limit) {
    if (limit) text += fmt::format(" {} {:g} ms", name, *limit);
  };
  add("TTFT", options.limits.ttft_ms);
  add("TPOT", options.limits.tpot_ms);
  add("E2E", options.limits.e2e_ms);
  return text;
}

// The price of a device may be unknown.
std::string dollars_text(double dollars) {
  return dollars > 0 ? fmt::format("{:.2f}", dollars) : "-";
}

bool prices_known(const DeploymentPlan& plan) {
  return std::all_of(plan.candidates.begin(), plan.candidates.end(), [](const PlanCandidate& c) {
    return c.num_replicas == 0 || c.dollars_per_hour > 0;
  });
}

// Returns the price of each device and its source.
std::string prices_text(const DeploymentPlan& plan, const PlanOptions& options) {
  if (!prices_known(plan)) {
    return "prices           not known (--price-per-hour, or price_per_hour in the hardware file)";
  }
  std::string text;
  for (const Hardware& hardware : options.hardware) {
    if (hardware.price_per_hour <= 0) continue;
    text += fmt::format("{}{} ${:.2f} an hour ({})", text.empty() ? "" : ", ", hardware.name,
                        hardware.price_per_hour,
                        hardware.price_source.empty() ? "hardware file" : hardware.price_source);
  }
  return "prices           " + text;
}

std::string frontier_plot(const DeploymentPlan& plan, PlanObjective objective, bool ttft) {
  Series frontier{.name = "Pareto frontier", .dots = true};
  Series others{.name = "others", .dots = true};
  Series chosen{.name = "the plan", .dots = true};
  for (const PlanCandidate& c : plan.candidates) {
    if (c.num_replicas == 0) continue;
    const bool first = &c == plan.candidates.data();
    Series& series = first ? chosen : c.on_frontier ? frontier : others;
    const double y = ttft ? c.summary.ttft_ms.p99 : c.summary.tpot_ms.p99;
    series.points.emplace_back(
        objective == PlanObjective::kDevices ? c.num_devices : c.dollars_per_hour, y);
    series.notes.push_back(name_of(c));
  }
  return svg_plot({.title = ttft ? "p99 of TTFT" : "p99 of TPOT",
                   .x_label = objective == PlanObjective::kDevices ? "devices" : "dollars per hour",
                   .y_label = "ms"},
                  {frontier, others, chosen});
}

}  // namespace

std::string closest_text(const DeploymentPlan& plan) {
  if (plan.candidates.empty()) return "no tensor parallel size suits the model";
  const PlanCandidate& c = plan.candidates[0];
  return fmt::format("{} tp {}, --max-num-batched-tokens {}: {}", c.hardware, c.tensor_parallel,
                     c.max_num_batched_tokens, c.obstacle);
}

std::string plan_text(const DeploymentPlan& plan, const PlanOptions& options) {
  std::string out;
  const auto line = [&out](const std::string& text) { out += text + '\n'; };
  line(fmt::format("wanted           {}", slo_text(options)));
  const bool any = plan.meets_slos();
  if (any) {
    const PlanCandidate& best = plan.candidates[0];
    line(
        fmt::format("plan             {} x {} tp {} = {} devices, --max-num-batched-tokens {} "
                    "--max-num-seqs {} --kv-cache-dtype {}{}",
                    best.num_replicas, best.hardware, best.tensor_parallel, best.num_devices,
                    best.max_num_batched_tokens, best.max_num_seqs, best.kv_format,
                    best.num_speculative_tokens > 0
                        ? fmt::format(", up to {} drafts a step", best.num_speculative_tokens)
                        : ""));
    line(fmt::format("why not fewer    {}", best.why_not_fewer));
  } else {
    line(fmt::format("plan             none with at most {} devices", options.max_devices));
    line(fmt::format("closest          {}", closest_text(plan)));
  }
  line(prices_text(plan, options));
  line(fmt::format("simulations      {}", plan.num_simulations));
  line("");
  line(fmt::format(
      "  {:<16} {:>3} {:>7} {:>5} {:>8} {:>6} {:>8} {:>8} {:>9} {:>7} {:>10} {:>10} {:>6}",
      "hardware", "tp", "tokens", "seqs", "kv", "drafts", "replicas", "devices", "$/hour", "good %",
      "TTFT p99", "TPOT p99", "busy %"));
  for (const PlanCandidate& c : plan.candidates) {
    if (c.num_replicas == 0) {
      line(fmt::format("  {:<16} {:>3} {:>7} {:>5} {:>8} {:>6} {:>8} {}", c.hardware,
                       c.tensor_parallel, c.max_num_batched_tokens, c.max_num_seqs, c.kv_format,
                       c.num_speculative_tokens, "-", c.obstacle));
      continue;
    }
    line(fmt::format(
        "{} {:<16} {:>3} {:>7} {:>5} {:>8} {:>6} {:>8} {:>8} {:>9} {:>7.1f} {:>10.1f} {:>10.2f} "
        "{:>6.1f}",
        c.on_frontier ? '*' : ' ', c.hardware, c.tensor_parallel, c.max_num_batched_tokens,
        c.max_num_seqs, c.kv_format, c.num_speculative_tokens, c.num_replicas, c.num_devices,
        dollars_text(c.dollars_per_hour), 100 * c.summary.good_share, c.summary.ttft_ms.p99,
        c.summary.tpot_ms.p99, 100 * c.summary.busy_share));
  }
  if (any) {
    line(options.objective == PlanObjective::kDevices
             ? "* no other has fewer devices and is as fast"
             : "* no other costs less and is as fast");
  }
  return out;
}

std::string plan_json(const DeploymentPlan& plan) {
  json::array rows;
  for (const PlanCandidate& c : plan.candidates) {
    json::object row;
    row["hardware"] = c.hardware;
    row["tensor_parallel"] = c.tensor_parallel;
    row["max_num_batched_tokens"] = c.max_num_batched_tokens;
    row["max_num_seqs"] = c.max_num_seqs;
    row["kv_cache_dtype"] = c.kv_format;
    row["num_speculative_tokens"] = c.num_speculative_tokens;
    row["replicas"] = c.num_replicas;
    row["devices"] = c.num_devices;
    row["dollars_per_hour"] =
        c.dollars_per_hour > 0 ? json::value(c.dollars_per_hour) : json::value(nullptr);
    row["on_frontier"] = c.on_frontier;
    row["good_share"] = c.summary.good_share;
    row["p99_ttft_ms"] = c.summary.ttft_ms.p99;
    row["p99_tpot_ms"] = c.summary.tpot_ms.p99;
    row["p99_e2el_ms"] = c.summary.e2e_ms.p99;
    row["output_throughput"] = c.summary.output_throughput;
    row["busy_share"] = c.summary.busy_share;
    if (!c.obstacle.empty()) row["obstacle"] = c.obstacle;
    if (!c.why_not_fewer.empty()) row["why_not_fewer"] = c.why_not_fewer;
    rows.push_back(std::move(row));
  }
  json::object out;
  out["candidates"] = std::move(rows);
  out["simulations"] = plan.num_simulations;
  return json::serialize(out) + "\n";
}

std::string plan_html(const DeploymentPlan& plan, const PlanOptions& options) {
  std::string body;
  if (plan.meets_slos()) {
    const PlanCandidate& best = plan.candidates[0];
    body += html_cards({{"devices", fmt::format("{}", best.num_devices)},
                        {"replicas", fmt::format("{} x {}", best.num_replicas, best.hardware)},
                        {"tensor parallel", fmt::format("{}", best.tensor_parallel)},
                        {"dollars per hour", dollars_text(best.dollars_per_hour)},
                        {"good requests", fmt::format("{:.1f} %", 100 * best.summary.good_share)}});
    body += "<p>Why not fewer: " + escape_html(best.why_not_fewer) + "</p>";
  }
  body += "<div class=\"plots\">" + frontier_plot(plan, options.objective, true) +
          frontier_plot(plan, options.objective, false) + "</div>";
  body += "<pre>" + escape_html(plan_text(plan, options)) + "</pre>";
  return html_page("Quire deployment plan",
                   {{"model", options.base.model.name}, {"wanted", slo_text(options)}}, body);
}

}  // namespace quire::sim
