// `quire simulate` runs a workload on a deployment in virtual time.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>

#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/output_file.h"
#include "quire/sim/deployment_flags.h"
#include "quire/sim/workload_flags.h"
#include "sim/ablation.h"
#include "sim/fleet/block_merging.h"
#include "sim/report/chrome_trace.h"
#include "sim/report/report.h"

namespace quire::cli {
namespace {

constexpr int64_t kTraceSteps = 200'000;

struct SimulateFlags {
  DeploymentFlags deployment;
  WorkloadFlags workload;
  int32_t num_replicas = 1;
  std::vector<std::string> pools;
  double transfer_gb_per_s = 50;
  double transfer_latency_ms = 0.2;
  sim::AutoscaleOptions autoscale;
  double scale_interval_s = 15, provisioning_s = 120, scale_down_s = 300;
  std::optional<double> admission_ms;
  std::optional<double> stop_s;
  int32_t num_threads = 1;
  bool fast_forward = true;
  bool ablation = false;
  std::string json, csv, html, chrome_trace;
};

void add_autoscaling_flags(CLI::App& verb, SimulateFlags& flags) {
  constexpr const char* kScale = "Autoscaling";
  verb.add_option(
          "--max-replicas", flags.autoscale.max_replicas,
          "Scale replicas with the load, up to this number; 0: always as many as --replicas")
      ->check(at_least(0))
      ->group(kScale);
  verb.add_option("--scale-target", flags.autoscale.target_requests,
                  "Target number of running requests per replica")
      ->check(above_zero())
      ->capture_default_str()
      ->group(kScale);
  verb.add_option("--scale-interval", flags.scale_interval_s,
                  "Seconds between two scaling decisions")
      ->check(seconds(1e-3))
      ->capture_default_str()
      ->group(kScale);
  verb.add_option("--provisioning-time", flags.provisioning_s,
                  "Seconds until a new replica accepts requests")
      ->check(seconds())
      ->capture_default_str()
      ->group(kScale);
  verb.add_option("--scale-down-delay", flags.scale_down_s,
                  "Seconds for which fewer replicas must suffice before one is removed")
      ->check(seconds())
      ->capture_default_str()
      ->group(kScale);
}

void add_fleet_flags(CLI::App& verb, SimulateFlags& flags) {
  constexpr const char* kGroup = "Fleet";
  DeploymentFlags& deployment = flags.deployment;
  verb.add_option("--tensor-parallel-size,--tp", deployment.tp,
                  "Number of devices that share every layer")
      ->check(at_least(1))
      ->group(kGroup);
  verb.add_option("--pipeline-parallel-size,--pp", deployment.pp, "Number of pipeline stages")
      ->check(at_least(1))
      ->group(kGroup);
  verb.add_option("--expert-parallel-size,--ep", deployment.ep,
                  "Number of devices that share the experts")
      ->check(at_least(1))
      ->group(kGroup);
  verb.add_option("--data-parallel-size,--dp", deployment.dp,
                  "Number of engines that share only the experts of a model (with --ep), each with "
                  "its own scheduler behind the router")
      ->check(at_least(1))
      ->group(kGroup);
  verb.add_option("--replicas", flags.num_replicas, "Number of replicas behind the router")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--pool", flags.pools,
                  "A group of equal replicas, as "
                  "hardware=NAME,replicas=N,tp=N,pp=N,ep=N,dp=N,role=both|prefill|decode; may be "
                  "given several times, for mixed machines or separate prefill and decode")
      ->group(kGroup);
  verb.add_option(
          "--transfer-gb-per-s", flags.transfer_gb_per_s,
          "Bandwidth of the KV transfer from prefill to decode, in GB/s per prefill replica")
      ->check(between(1e-3, 1e6))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--transfer-latency-ms", flags.transfer_latency_ms,
                  "Latency of each KV transfer in milliseconds")
      ->check(milliseconds())
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--admission-ms", flags.admission_ms,
          "Time in the front end before the router, in milliseconds; default: the hardware file's")
      ->check(milliseconds())
      ->group(kGroup);
  add_autoscaling_flags(verb, flags);
}

void add_output_flags(CLI::App& verb, SimulateFlags& flags) {
  constexpr const char* kGroup = "Output";
  verb.add_option("--json", flags.json,
                  "Write the figures as JSON to this file, with the keys of bench serve; - means "
                  "standard output instead of text")
      ->group(kGroup);
  verb.add_option("--csv", flags.csv, "Write one row per request to this CSV file")->group(kGroup);
  verb.add_option("--html", flags.html, "Write an HTML page with plots to this file")
      ->group(kGroup);
  verb.add_option(
          "--chrome-trace", flags.chrome_trace,
          "Write steps and requests as trace events for chrome://tracing or Perfetto to this file")
      ->group(kGroup);
  verb.add_option("--stop-after", flags.stop_s, "Virtual seconds after which the simulation ends")
      ->check(seconds(1e-9));
  verb.add_option("--threads", flags.num_threads,
                  "Number of threads, for replicas that can be simulated independently (random, "
                  "round-robin and session routing)")
      ->check(in_range(1, 1024))
      ->capture_default_str();
  verb.add_flag("--ablation", flags.ablation,
                "Run the workload four times: with static or continuous batching, and contiguous "
                "or paged KV");
  verb.add_flag("--fast-forward,!--no-fast-forward", flags.fast_forward,
                "Simulate sequences of equal steps at once; this changes only the speed of the "
                "simulation (default: on)");
}

Result<sim::FleetSpec> fleet_of(const SimulateFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(sim::PoolOptions base, pool_of(flags.deployment));
  base.num_replicas = flags.num_replicas;
  base.lora_rank = lora_rank_of(flags.deployment, flags.workload.num_loras);
  base.autoscale = flags.autoscale;
  base.autoscale.interval_ns = static_cast<int64_t>(flags.scale_interval_s * 1e9);
  base.autoscale.provisioning_ns = static_cast<int64_t>(flags.provisioning_s * 1e9);
  base.autoscale.scale_down_ns = static_cast<int64_t>(flags.scale_down_s * 1e9);
  base.fast_forward = flags.fast_forward;
  sim::FleetSpec spec;
  QUIRE_ASSIGN_OR_RETURN(spec.router, router_of(flags.deployment));
  const std::vector<std::string> pools =
      flags.pools.empty() ? std::vector<std::string>{fmt::format("replicas={}", flags.num_replicas)}
                          : flags.pools;
  if (flags.deployment.hardware.size() > 1) {
    return invalid_argument(
        "--hardware: expected one device, got {}; give a --pool for each further device",
        flags.deployment.hardware.size());
  }
  double admission_us = 0;
  std::string table_hardware;
  for (const std::string& text : pools) {
    QUIRE_ASSIGN_OR_RETURN(const sim::PoolOptions options,
                           parse_pool(text, base, flags.deployment));
    if (!flags.deployment.tables.empty() && options.tables != nullptr) {
      if (!table_hardware.empty() && table_hardware != options.hardware.name) {
        return invalid_argument("--tables: expected pools of one device, got {} and {}",
                                table_hardware, options.hardware.name);
      }
      table_hardware = options.hardware.name;
    }
    QUIRE_ASSIGN_OR_RETURN(sim::PoolSpec pool, sim::make_pool(options));
    spec.pools.push_back(std::move(pool));
    if (options.cost.fidelity != Fidelity::kBound) {
      admission_us = std::max(admission_us, options.hardware.host.admission_us);
    }
  }
  spec.transfer = {.bytes_per_s = flags.transfer_gb_per_s * 1e9,
                   .latency_ns = static_cast<int64_t>(flags.transfer_latency_ms * 1e6)};
  spec.admission_ns =
      static_cast<int64_t>(flags.admission_ms ? *flags.admission_ms * 1e6 : admission_us * 1e3);
  if (flags.stop_s) spec.stop_ns = static_cast<int64_t>(*flags.stop_s * 1e9);
  spec.num_threads = flags.num_threads;
  spec.memory_bytes = simulation_memory_bytes();
  return spec;
}

sim::Description describe(const SimulateFlags& flags, const sim::Workload& workload,
                          const sim::FleetSpec& spec) {
  sim::Description description;
  description.emplace_back("model", flags.deployment.model);
  std::string pools;
  for (const sim::PoolSpec& pool : spec.pools) {
    pools += fmt::format("{}{} x {}", pools.empty() ? "" : ", ", pool.num_replicas, pool.name);
    if (pool.devices_per_replica > 1)
      pools += fmt::format(" ({} devices each)", pool.devices_per_replica);
  }
  description.emplace_back("deployment", pools + ", " + flags.deployment.routing);
  if (!flags.deployment.preset.empty()) {
    description.emplace_back("engine", flags.deployment.preset);
  }
  if (flags.deployment.fidelity == "auto") {
    std::string fidelity;
    for (const sim::PoolSpec& pool : spec.pools) {
      fidelity += (fidelity.empty() ? "" : ", ") + pool.fidelity;
    }
    description.emplace_back("fidelity", fidelity);
  }
  description.emplace_back("workload",
                           fmt::format("{}, {} requests", workload.name, workload.requests.size()));
  description.emplace_back("seed", fmt::format("{}", flags.deployment.seed));
  return description;
}

// Returns a length of time that divides the span of all arrivals into about two hundred slices.
int64_t slice_ns_of(const sim::Workload& workload) {
  int64_t last_ns = 0;
  for (const sim::SimRequest& r : workload.requests) {
    if (r.previous < 0) last_ns = std::max(last_ns, r.arrival_ns);
  }
  int64_t slice_ns = 10'000'000;
  for (int i = 0; slice_ns < last_ns / 200; ++i) slice_ns *= i % 3 == 1 ? 5 : 2;
  return std::max<int64_t>(slice_ns, 100'000'000);
}

Status write_outputs(const SimulateFlags& flags, const sim::Workload& workload,
                     const sim::RunResult& result, const sim::Summary& summary,
                     const sim::Description& description, sim::ChromeTrace* trace) {
  if (!flags.json.empty()) {
    QUIRE_RETURN_IF_ERROR(write_file(flags.json, sim::report_json(summary, description)));
  }
  if (!flags.csv.empty()) {
    QUIRE_RETURN_IF_ERROR(write_file(flags.csv, sim::report_csv(workload, result)));
  }
  if (!flags.html.empty()) {
    QUIRE_RETURN_IF_ERROR(write_file(flags.html, sim::report_html(summary, result, description)));
  }
  if (trace == nullptr) return {};
  trace->add_requests(result);
  if (trace->num_left_out() > 0) {
    fmt::print(stderr, "{}: the last {} steps are left out\n", flags.chrome_trace,
               trace->num_left_out());
  }
  return write_file(flags.chrome_trace, trace->text());
}

// Runs --ablation, which compares the modes side by side instead of a single run.
Status run_ablation(const SimulateFlags& flags, const sim::Workload& workload,
                    const sim::FleetSpec& spec, const sim::SloLimits& limits) {
  if (!flags.csv.empty() || !flags.chrome_trace.empty()) {
    return invalid_argument("--ablation: expected --json or --html, got --csv or --chrome-trace");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<sim::ModeRun> runs,
                         sim::run_modes(workload, spec, limits));
  const sim::Description description = describe(flags, workload, spec);
  if (flags.json != kStandardOutput) fmt::print("{}", sim::ablation_text(runs, description));
  if (!flags.json.empty()) {
    QUIRE_RETURN_IF_ERROR(write_file(flags.json, sim::ablation_json(runs)));
  }
  if (flags.html.empty()) return {};
  return write_file(flags.html, sim::ablation_html(runs, description));
}

Status run_simulate(const SimulateFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const sim::SloLimits limits, slo_limits(flags.deployment));
  QUIRE_ASSIGN_OR_RETURN(sim::FleetSpec spec, fleet_of(flags));
  QUIRE_ASSIGN_OR_RETURN(const sim::Workload workload,
                         workload_of(flags.workload, flags.deployment.model, flags.deployment.seed,
                                     spec.pools[0].replica.model.max_model_len));
  spec.slice_ns = slice_ns_of(workload);
  if (flags.deployment.merge_blocks && !flags.ablation) sim::merge_blocks(workload, spec);
  std::optional<sim::ChromeTrace> trace;
  sim::RunObserver observer{.progress = progress_bar("simulating")};
  if (!flags.chrome_trace.empty()) {
    trace.emplace(kTraceSteps);
    observer.on_step = [&trace](const sim::StepView& step) { trace->add(step); };
  }
  for (const std::string& path : {flags.json, flags.csv, flags.html, flags.chrome_trace}) {
    QUIRE_RETURN_IF_ERROR(check_writable(path));
  }
  if (flags.ablation) return run_ablation(flags, workload, spec, limits);
  const auto begin = std::chrono::steady_clock::now();
  QUIRE_ASSIGN_OR_RETURN(const sim::RunResult result, sim::run(workload, spec, observer));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (observer.progress) observer.progress(1, 1);
  const sim::Summary summary = sim::summarize(spec, result, limits);
  const sim::Description description = describe(flags, workload, spec);
  if (flags.json != kStandardOutput) fmt::print("{}", sim::report_text(summary, description));
  fmt::print(stderr,
             "simulated {:.1f} s in {:.2f} s: {:.0f} requests/s, {:.2f} M output tokens/s\n",
             summary.duration_s, seconds, static_cast<double>(summary.num_completed) / seconds,
             static_cast<double>(summary.output_tokens) / seconds * 1e-6);
  return write_outputs(flags, workload, result, summary, description, trace ? &*trace : nullptr);
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "simulate",
      "Run a workload on a deployment in virtual time, with the engine's own scheduler");
  auto flags = std::make_shared<SimulateFlags>();
  add_deployment_flags(verb, flags->deployment);
  add_draft_flags(verb, flags->deployment);
  verb.add_option("--num-speculative-tokens",
                  flags->deployment.engine.scheduler.num_speculative_tokens,
                  "Number of drafts per request and step; see --draft-acceptance")
      ->check(in_range(0, 64))
      ->capture_default_str()
      ->group("Scheduling");
  add_fleet_flags(verb, *flags);
  add_workload_flags(verb, flags->workload);
  add_output_flags(verb, *flags);
  verb.callback([flags, &verb, &exit_code] {
    note_chosen(verb, flags->deployment);
    exit_code = report(run_simulate(*flags));
  });
}

}  // namespace quire::cli
