#include "quire/bench/step_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <string>

namespace quire::bench {
namespace {

// Returns the value of the first sample whose line starts with `name` and has `label` among its
// labels.
std::optional<double> sample(std::string_view text, std::string_view name,
                             std::string_view label = {}) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name) || line.size() == name.size()) continue;
    const char after = line[name.size()];
    if ((after != '{' && after != ' ') || line.find(label) == std::string_view::npos) continue;
    return std::strtod(std::string(line.substr(line.rfind(' ') + 1)).c_str(), nullptr);
  }
  return std::nullopt;
}

int64_t part_us(std::string_view text, std::string_view part) {
  return static_cast<int64_t>(
      sample(text, "quire:step_part_microseconds_total", fmt::format("part=\"{}\"", part))
          .value_or(0));
}

}  // namespace

StepUse step_use(const EngineStats& stats) {
  return {.num_steps = static_cast<int64_t>(stats.steps),
          .time = stats.step_time,
          .measured_us = static_cast<double>(stats.step_us),
          .bound_us = static_cast<double>(stats.step_bound_us)};
}

std::optional<StepUse> parse_step_use(std::string_view metrics) {
  const std::optional<double> steps = sample(metrics, "quire:steps_total");
  if (!steps) return std::nullopt;
  StepUse use{.num_steps = static_cast<int64_t>(*steps)};
  use.time = {.schedule_us = part_us(metrics, "schedule"),
              .execute_us = part_us(metrics, "execute"),
              .update_us = part_us(metrics, "update"),
              .executor = {.inputs_us = part_us(metrics, "inputs"),
                           .forward_us = part_us(metrics, "forward"),
                           .logits_us = part_us(metrics, "logits"),
                           .sample_us = part_us(metrics, "sample")}};
  use.http_cpu_s = sample(metrics, "quire:http_cpu_seconds_total").value_or(0);
  use.measured_us = sample(metrics, "quire:step_microseconds_total").value_or(0);
  use.bound_us = sample(metrics, "quire:step_bound_microseconds_total").value_or(0);
  return use;
}

StepUse since(const StepUse& earlier, const StepUse& later) {
  StepUse use = later;
  use.num_steps -= earlier.num_steps;
  use.time.schedule_us -= earlier.time.schedule_us;
  use.time.execute_us -= earlier.time.execute_us;
  use.time.update_us -= earlier.time.update_us;
  use.time.executor.inputs_us -= earlier.time.executor.inputs_us;
  use.time.executor.forward_us -= earlier.time.executor.forward_us;
  use.time.executor.logits_us -= earlier.time.executor.logits_us;
  use.time.executor.sample_us -= earlier.time.executor.sample_us;
  use.http_cpu_s -= earlier.http_cpu_s;
  use.measured_us -= earlier.measured_us;
  use.bound_us -= earlier.bound_us;
  return use;
}

std::optional<double> bound_share(const StepUse& use) {
  if (use.measured_us <= 0 || use.bound_us <= 0) return std::nullopt;
  return use.bound_us / use.measured_us;
}

double executor_share(const StepUse& use, double wall_s) {
  return wall_s > 0 ? static_cast<double>(use.time.execute_us) * 1e-6 / wall_s : 0;
}

void explain_share(double largest) {
  constexpr double kAbove = 1.005;  // a share above it is printed as 101 % or more
  if (largest < kAbove) return;
  fmt::print(
      "A share above 100 %: the bound uses the speed that the probe measured. The machine was "
      "faster\nduring the run, because the speed of shared machines varies, or data came from a "
      "cache instead of\nmemory.\n");
}

namespace {

// These shares are computed from StepUse once, so that text and JSON show the same figures.
struct StepShares {
  double execute = 0, forward = 0, logits = 0, sample = 0, inputs = 0;     // of the wall time
  double schedule_ms = 0, update_ms = 0, between_ms = 0, http_cpu_ms = 0;  // a step
};

StepShares shares_of(const StepUse& use, double wall_s) {
  const double wall_us = wall_s * 1e6;
  const auto share = [wall_us](int64_t us) { return static_cast<double>(us) / wall_us; };
  const auto ms_a_step = [&](double us) { return us * 1e-3 / static_cast<double>(use.num_steps); };
  const StepTimeTotals& time = use.time;
  const auto busy_us = static_cast<double>(time.schedule_us + time.execute_us + time.update_us);
  return {.execute = share(time.execute_us),
          .forward = share(time.executor.forward_us),
          .logits = share(time.executor.logits_us),
          .sample = share(time.executor.sample_us),
          .inputs = share(time.executor.inputs_us),
          .schedule_ms = ms_a_step(static_cast<double>(time.schedule_us)),
          .update_ms = ms_a_step(static_cast<double>(time.update_us)),
          .between_ms = ms_a_step(std::max(0.0, wall_us - busy_us)),
          .http_cpu_ms = ms_a_step(use.http_cpu_s * 1e6)};
}

}  // namespace

void print_step_use(const StepUse& use, double wall_s) {
  if (use.num_steps < 1 || wall_s <= 0) return;
  const StepShares shares = shares_of(use, wall_s);
  fmt::print(
      "steps                {}: executor {:.1f} % of the wall time (forward {:.1f}, logits {:.1f}, "
      "sampling {:.1f}, inputs {:.1f})\n",
      use.num_steps, 100 * shares.execute, 100 * shares.forward, 100 * shares.logits,
      100 * shares.sample, 100 * shares.inputs);
  fmt::print(
      "host, ms per step    scheduling {:.3f}, text and streams {:.3f}, between steps {:.3f}",
      shares.schedule_ms, shares.update_ms, shares.between_ms);
  if (use.http_cpu_s > 0) fmt::print("; CPU of HTTP threads {:.3f}", shares.http_cpu_ms);
  fmt::print("\n");
}

boost::json::object to_json(const StepUse& use, double wall_s) {
  if (use.num_steps < 1 || wall_s <= 0) return {{"num_steps", use.num_steps}};
  const StepShares shares = shares_of(use, wall_s);
  return {{"num_steps", use.num_steps},        {"executor_share", shares.execute},
          {"forward_share", shares.forward},   {"logits_share", shares.logits},
          {"sampling_share", shares.sample},   {"inputs_share", shares.inputs},
          {"schedule_ms", shares.schedule_ms}, {"text_ms", shares.update_ms},
          {"between_ms", shares.between_ms},   {"http_cpu_ms", shares.http_cpu_ms}};
}

}  // namespace quire::bench
