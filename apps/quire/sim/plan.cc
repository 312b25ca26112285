// `quire plan` finds the fewest or cheapest devices that serve a workload within SLOs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "quire/output_file.h"
#include "quire/sim/deployment_flags.h"
#include "quire/sim/workload_flags.h"
#include "sim/planner.h"

namespace quire::cli {
namespace {

struct PlanFlags {
  DeploymentFlags deployment;
  WorkloadFlags workload;
  std::vector<int32_t> tensor_parallel = {1, 2, 4, 8};
  std::vector<int32_t> batched_tokens = {2048, 8192};
  std::vector<int32_t> seqs = {64, 256, 1024};
  std::vector<std::string> kv_dtypes;
  std::vector<int32_t> num_drafts = {0};
  double good_percent = 95;
  int32_t max_devices = 256;
  bool cheapest = false;
  std::string json, html;
};

void add_search_flags(CLI::App& verb, PlanFlags& flags) {
  constexpr const char* kGroup = "Search";
  verb.add_option("--tp", flags.tensor_parallel,
                  "Numbers of devices per layer (tensor parallel sizes) to try")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--try-batched-tokens", flags.batched_tokens,
                  "Values of --max-num-batched-tokens to try")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--try-seqs", flags.seqs, "Values of --max-num-seqs to try")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--try-kv-cache-dtypes", flags.kv_dtypes,
                  "Types of the KV cache to try, such as auto,fp8; auto: as --kv-cache-dtype")
      ->delimiter(',')
      ->group(kGroup);
  verb.add_option(
          "--try-speculative-tokens", flags.num_drafts,
          "Numbers of drafts per request and step to try, such as 0,4; see --draft-acceptance")
      ->delimiter(',')
      ->check(in_range(0, 64))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--good-percent", flags.good_percent,
                  "Share of requests in percent that must meet the SLOs")
      ->check(CLI::Range(0.1, 100.0))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-devices", flags.max_devices, "Largest number of devices of a deployment")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--cheapest", flags.cheapest,
                "Look for the lowest price per hour instead of the fewest devices")
      ->group(kGroup);
  verb.add_option(
          "--json", flags.json,
          "Write all candidates as JSON to this file; - means standard output instead of text")
      ->group("Output");
  verb.add_option("--html", flags.html, "Write an HTML page with plots to this file")
      ->group("Output");
}

void show_progress(const sim::PlanProgress& progress) {
  constexpr int32_t kWidth = 24;
  const int32_t filled = kWidth * progress.num_done / std::max(1, progress.num_candidates);
  fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {}/{} {}", "", filled, "", kWidth - filled,
             progress.num_done, progress.num_candidates, progress.what);
}

Result<std::vector<NumberFormat>> kv_formats(const PlanFlags& flags, const ModelShape& model) {
  std::vector<NumberFormat> formats;
  for (const std::string& name : flags.kv_dtypes) {
    const std::optional<NumberFormat> format =
        name == "auto" ? model.kv : parse_number_format(name);
    if (!format) {
      return invalid_argument(
          "--try-kv-cache-dtypes: expected auto or a format such as bfloat16 or fp8, got '{}'",
          name);
    }
    formats.push_back(*format);
  }
  return formats;
}

Status run_plan(const PlanFlags& flags) {
  sim::PlanOptions options;
  QUIRE_ASSIGN_OR_RETURN(options.limits, slo_limits(flags.deployment));
  QUIRE_ASSIGN_OR_RETURN(options.base, pool_of(flags.deployment));
  options.base.lora_rank = lora_rank_of(flags.deployment, flags.workload.num_loras);
  QUIRE_ASSIGN_OR_RETURN(options.router, router_of(flags.deployment));
  double admission_us = 0;
  for (const std::string& name : flags.deployment.hardware) {
    QUIRE_ASSIGN_OR_RETURN(Hardware hardware, hardware_of(name, flags.deployment));
    admission_us = std::max(admission_us, hardware.host.admission_us);
    QUIRE_ASSIGN_OR_RETURN(options.base.cost.fidelity, fidelity_of(flags.deployment, hardware));
    if (flags.deployment.hardware.size() == 1) {
      QUIRE_ASSIGN_OR_RETURN(options.base.tables, tables_of(flags.deployment, hardware));
    }
    options.hardware.push_back(std::move(hardware));
  }
  if (options.base.cost.fidelity == Fidelity::kTable && options.base.tables == nullptr) {
    return invalid_argument(
        "--fidelity {}: expected one --hardware, because tables describe one device",
        flags.deployment.fidelity);
  }
  options.admission_ns = static_cast<int64_t>(admission_us * 1e3);
  options.memory_bytes = simulation_memory_bytes();
  options.merge_blocks = flags.deployment.merge_blocks;
  options.tensor_parallel = flags.tensor_parallel;
  options.max_num_batched_tokens = flags.batched_tokens;
  options.max_num_seqs = flags.seqs;
  QUIRE_ASSIGN_OR_RETURN(options.kv_formats, kv_formats(flags, options.base.model));
  options.num_speculative_tokens = flags.num_drafts;
  options.good_share = flags.good_percent / 100;
  options.max_devices = flags.max_devices;
  options.objective = flags.cheapest ? sim::PlanObjective::kDollars : sim::PlanObjective::kDevices;
  QUIRE_ASSIGN_OR_RETURN(const sim::Workload workload,
                         workload_of(flags.workload, flags.deployment.model, flags.deployment.seed,
                                     static_cast<int32_t>(options.base.model.max_model_len)));
  for (const std::string& path : {flags.json, flags.html}) {
    QUIRE_RETURN_IF_ERROR(check_writable(path));
  }
  const bool terminal = isatty(STDERR_FILENO) != 0;
  QUIRE_ASSIGN_OR_RETURN(
      const sim::DeploymentPlan plan,
      sim::plan_deployment(workload, options, terminal ? show_progress : nullptr));
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (flags.json != kStandardOutput) fmt::print("{}", sim::plan_text(plan, options));
  if (!flags.json.empty()) QUIRE_RETURN_IF_ERROR(write_file(flags.json, sim::plan_json(plan)));
  if (!flags.html.empty()) {
    QUIRE_RETURN_IF_ERROR(write_file(flags.html, sim::plan_html(plan, options)));
  }
  if (!plan.meets_slos()) {
    return unavailable("plan: no deployment with at most {} devices meets the SLOs; closest: {}",
                       options.max_devices, sim::closest_text(plan));
  }
  return {};
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "plan", "Find the fewest or cheapest devices that serve a workload and meet its SLOs");
  auto flags = std::make_shared<PlanFlags>();
  add_deployment_flags(verb, flags->deployment);
  add_draft_flags(verb, flags->deployment);
  add_workload_flags(verb, flags->workload);
  add_search_flags(verb, *flags);
  verb.callback([flags, &verb, &exit_code] {
    note_chosen(verb, flags->deployment);
    exit_code = report(run_plan(*flags));
  });
}

}  // namespace quire::cli
