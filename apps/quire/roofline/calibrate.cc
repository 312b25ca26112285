// `quire roofline probe` and `quire roofline calibrate` make hardware descriptions from
// measurements.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "facade/hardware/machine_hardware.h"
#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"
#include "quire/output_file.h"
#include "quire/roofline/calibrate_report.h"
#include "quire/roofline/commands.h"
#include "quire/version.h"
#include "roofline/calibrate/calibrate_operators.h"
#include "roofline/calibrate/calibrate_steps.h"
#include "roofline/model/latent_modules.h"
#include "roofline/model/mixed_launches.h"

namespace quire::roofline {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

struct ProbeFlags {
  int32_t num_threads = 0;
  std::string output;
  bool as_json = false;
};

void print_limits(const Hardware& hardware) {
  const auto peak = [&](MathType math) {
    return hardware.peak_flops[static_cast<size_t>(math)] * 1e-9;
  };
  fmt::print(
      "{}: reads {:.1f} GB/s from memory, {:.1f} GB/s from a cache of {:.1f} MB; multiply-adds "
      "{:.0f} GFLOP/s f32, {:.0f} bf16, {:.0f} int8\n",
      hardware.description, hardware.memory_bytes_per_s * 1e-9, hardware.cache_bytes_per_s * 1e-9,
      hardware.cache_bytes * 1e-6, peak(MathType::kF32), peak(MathType::kBf16),
      peak(MathType::kInt8));
}

boost::json::object limits_json(const Hardware& hardware) {
  boost::json::object peaks;
  for (const MathType math : {MathType::kF32, MathType::kBf16, MathType::kInt8}) {
    peaks[to_string(math)] = hardware.peak_flops[static_cast<size_t>(math)] * 1e-9;
  }
  return {{"machine", hardware.description},
          {"memory_gb_per_s", hardware.memory_bytes_per_s * 1e-9},
          {"cache_gb_per_s", hardware.cache_bytes_per_s * 1e-9},
          {"cache_mb", hardware.cache_bytes * 1e-6},
          {"peak_gflop_per_s", std::move(peaks)}};
}

Status run_probe(const ProbeFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(Hardware hardware, probe_machine({.num_threads = flags.num_threads}));
  hardware.provenance.date = today();
  hardware.provenance.versions = std::string(version_name());
  const std::string path = flags.output.empty()
                               ? machine_hardware_path({.num_threads = flags.num_threads})
                               : flags.output;
  if (path.empty()) {
    return invalid_argument(
        "expected --output FILE, or one of the variables HOME and XDG_CACHE_HOME; got none of "
        "them");
  }
  QUIRE_RETURN_IF_ERROR(keep_hardware(hardware, path));
  if (flags.as_json) {
    boost::json::object out = limits_json(hardware);
    out["written_to"] = path;
    cli::print_json(std::move(out));
    return {};
  }
  print_limits(hardware);
  fmt::print("written to {}\n", path);
  return {};
}

struct CalibrateFlags {
  std::vector<std::string> inputs;
  std::string hardware = "auto";
  std::string name;
  std::string output;
  int32_t num_threads = 0;
  bool judge_only = false;
  bool allow_worse = false;
  StepFitOptions steps;
  bool as_json = false;
};

// Appends the steps of one log to `all`. Logs of different models or machines are refused.
Status join_step_log(const std::string& path, std::string_view text, std::optional<StepLog>& all) {
  QUIRE_ASSIGN_OR_RETURN(StepLog log, parse_step_log(text, path));
  if (!all) {
    all = std::move(log);
  } else if (format_header(log.header) != format_header(all->header)) {
    return invalid_argument("{}: expected a step log of {}, as the ones before it, got one of {}",
                            path, all->header.model.name, log.header.model.name);
  } else {
    all->steps.insert(all->steps.end(), log.steps.begin(), log.steps.end());
  }
  return {};
}

Status fit_step_log(const CalibrateFlags& flags, const StepLog& log, Hardware& hardware,
                    CalibrateReport& report) {
  QUIRE_ASSIGN_OR_RETURN(const StepFitReport fit, fit_steps(log, hardware, flags.steps));
  report.add(fit, log.header.model.name);
  hardware.provenance.num_samples = fit.num_steps;
  hardware.provenance.train_mape = fit.train_mape;
  hardware.provenance.test_mape = fit.test_mape;
  return {};
}

// A Table is a file of operator times, whose first line names its columns.
struct Table {
  std::string path;
  std::string text;

  bool has(std::string_view column) const {
    return std::string_view(text).substr(0, text.find('\n')).find(column) != std::string_view::npos;
  }
};
using Reports = std::vector<FitReport>;

// Fits the constants of every kernel kind that the table has samples of.
template <typename Sample, typename FormatOf, typename Fit>
Status fit_kinds(const std::vector<Sample>& samples, FormatOf format_of, Fit fit,
                 Reports& reports) {
  std::set<KernelKind> done;
  for (const Sample& sample : samples) {
    const NumberFormat format = format_of(sample);
    if (!done.insert(kernel_kind(format)).second) continue;
    QUIRE_ASSIGN_OR_RETURN(FitReport report, fit(format));
    reports.push_back(std::move(report));
  }
  return {};
}

Status fit_gemm_table(const Table& table, const FitOptions& options, Hardware& hardware,
                      Reports& reports) {
  QUIRE_ASSIGN_OR_RETURN(const auto samples, read_gemm_csv(table.text, table.path));
  return fit_kinds(
      samples, [](const GemmSample& s) { return s.work.weights; },
      [&](const NumberFormat& format) { return fit_gemm(samples, format, hardware, options); },
      reports);
}

Status fit_attention_table(const Table& table, const FitOptions& options, Hardware& hardware,
                           Reports& reports) {
  QUIRE_ASSIGN_OR_RETURN(const auto samples, read_attention_csv(table.text, table.path));
  const bool prompts = std::any_of(samples.begin(), samples.end(),
                                   [](const AttentionSample& s) { return s.num_tokens > 1; });
  return fit_kinds(
      samples, [](const AttentionSample& s) { return s.work.kv; },
      [&](const NumberFormat& format) {
        return prompts ? fit_prefill_attention(samples, format, hardware, options)
                       : fit_decode_attention(samples, format, hardware, options);
      },
      reports);
}

Status fit_experts_table(const Table& table, const FitOptions& options, Hardware& hardware,
                         Reports& reports) {
  QUIRE_ASSIGN_OR_RETURN(const auto samples, read_experts_csv(table.text, table.path));
  return fit_kinds(
      samples, [](const ExpertsSample& s) { return s.work.weights; },
      [&](const NumberFormat& format) -> Result<FitReport> {
        QUIRE_ASSIGN_OR_RETURN(const FitReport report,
                               fit_experts(samples, format, hardware, options));
        const bool skewed =
            std::any_of(samples.begin(), samples.end(), [&](const ExpertsSample& s) {
              return kernel_kind(s.work.weights) == kernel_kind(format) && !s.balanced;
            });
        if (!skewed) return report;
        reports.push_back(report);
        return judge_skewed_experts(samples, format, hardware, options);
      },
      reports);
}

Status fit_collective_table(const Table& table, const FitOptions& options, Hardware& hardware,
                            Reports& reports) {
  QUIRE_ASSIGN_OR_RETURN(const auto samples, read_collective_csv(table.text, table.path));
  QUIRE_ASSIGN_OR_RETURN(FitReport report, fit_collectives(samples, hardware, options));
  reports.push_back(std::move(report));
  return {};
}

// Fits constants to the table and appends one report for each operator in it.
Status fit_table(const Table& table, const FitOptions& options, Hardware& hardware,
                 Reports& reports) {
  if (table.has("gemm_dtype")) return fit_gemm_table(table, options, hardware, reports);
  if (table.has("moe_dtype")) return fit_experts_table(table, options, hardware, reports);
  if (table.has("message_size")) return fit_collective_table(table, options, hardware, reports);
  if (table.has("num_key_value_heads")) {
    return fit_attention_table(table, options, hardware, reports);
  }
  return invalid_argument(
      "{}: expected a step log, or a table with the column gemm_dtype, num_key_value_heads, "
      "n_decode, moe_dtype, mla_dtype or message_size",
      table.path);
}

Result<Reports> judge(const std::vector<Table>& tables, Hardware hardware) {
  Reports reports;
  for (const Table& table : tables) {
    QUIRE_RETURN_IF_ERROR(
        fit_table(table, {.judge_only = true, .judge_tables = false}, hardware, reports));
  }
  return reports;
}

// Reads `text` back and judges it by all tables beside the description that it replaces: the file
// at `path` if there is one, else the description from which the fit started.
Status check_written(const std::vector<Table>& tables, const std::string& text,
                     const std::string& path, const Hardware& start) {
  QUIRE_ASSIGN_OR_RETURN(const Hardware written, parse_hardware(text, path));
  if (tables.empty()) return {};
  Hardware replaced = start;
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error) &&
      std::filesystem::file_size(path, error) > 0) {
    QUIRE_ASSIGN_OR_RETURN(replaced, resolve_hardware(path, {}));
  }
  QUIRE_ASSIGN_OR_RETURN(const Reports after, judge(tables, written));
  QUIRE_ASSIGN_OR_RETURN(const Reports before, judge(tables, replaced));
  const Status status = check_not_worse(after, before);
  if (status.ok()) return {};
  return invalid_argument("{}: {}; nothing is written; use --allow-worse to write it anyway", path,
                          status.message());
}

Status judge_mixed_table(const Table& table, const Hardware& hardware, CalibrateReport& report) {
  QUIRE_ASSIGN_OR_RETURN(const auto samples, read_mixed_csv(table.text, table.path));
  report.add(judge_mixed(samples, hardware));
  return {};
}

Status judge_latent_table(const Table& table, const Hardware& hardware, CalibrateReport& report) {
  QUIRE_ASSIGN_OR_RETURN(const auto samples, read_latent_modules_csv(table.text, table.path));
  std::set<std::pair<NumberFormat, NumberFormat>> kinds;
  for (const LatentModuleSample& sample : samples) kinds.emplace(sample.weights, sample.kv);
  for (const auto& [weights, kv] : kinds) {
    QUIRE_ASSIGN_OR_RETURN(const LatentModuleReport judged,
                           judge_latent_modules(samples, weights, kv, hardware));
    report.add(fmt::format("{} weights, {} cache", name_of(weights), name_of(kv)), judged);
  }
  return {};
}

// Inputs are the files of one calibration, sorted by their content.
struct Inputs {
  std::vector<Table> tables;  // constants are fitted to these
  std::optional<StepLog> steps;
  std::string names;
};

Result<Inputs> read_inputs(const CalibrateFlags& flags, const Hardware& hardware,
                           CalibrateReport& report) {
  Inputs inputs;
  for (const std::string& path : flags.inputs) {
    Table table{.path = path};
    QUIRE_ASSIGN_OR_RETURN(table.text, read_input(path));
    const bool steps = table.text.starts_with("{");
    if (steps && flags.judge_only) {
      return invalid_argument(
          "{}: expected tables with --judge-only, got a step log, by which quire roofline "
          "residuals judges",
          path);
    } else if (steps) {
      QUIRE_RETURN_IF_ERROR(join_step_log(path, table.text, inputs.steps));
    } else if (table.has("mla_dtype")) {
      QUIRE_RETURN_IF_ERROR(judge_latent_table(table, hardware, report));
    } else if (table.has("n_decode")) {
      QUIRE_RETURN_IF_ERROR(judge_mixed_table(table, hardware, report));
    } else {
      inputs.tables.push_back(std::move(table));
    }
    inputs.names += (inputs.names.empty() ? "" : ", ");
    inputs.names += std::filesystem::path(path).filename().string();
  }
  return inputs;
}

Status run_calibrate(const CalibrateFlags& flags) {
  if (flags.output.empty() && !flags.judge_only) {
    return invalid_argument("expected --output FILE for the fitted description, or --judge-only");
  }
  QUIRE_RETURN_IF_ERROR(cli::check_writable(flags.output));
  QUIRE_ASSIGN_OR_RETURN(const Hardware start,
                         resolve_hardware(flags.hardware, {.num_threads = flags.num_threads}));
  CalibrateReport report(flags.as_json);
  QUIRE_ASSIGN_OR_RETURN(const Inputs inputs, read_inputs(flags, start, report));
  Hardware hardware = start;
  for (const Table& table : inputs.tables) {
    Reports reports;
    const FitOptions options{.judge_only = flags.judge_only, .fit_untuned = flags.allow_worse};
    QUIRE_RETURN_IF_ERROR(fit_table(table, options, hardware, reports));
    for (const FitReport& fit : reports) report.add(fit);
  }
  if (flags.judge_only) {
    report.finish();
    return {};
  }
  hardware.provenance = {
      .source = fmt::format("calibrated from {} on the limits of {}", inputs.names, start.name),
      .date = today(),
      .device = start.provenance.device,
      .versions = std::string(version_name())};
  if (inputs.steps) QUIRE_RETURN_IF_ERROR(fit_step_log(flags, *inputs.steps, hardware, report));
  if (!flags.name.empty()) hardware.name = flags.name;
  const std::string text = to_json(hardware);
  if (!flags.allow_worse) {
    QUIRE_RETURN_IF_ERROR(check_written(inputs.tables, text, flags.output, start));
  }
  QUIRE_RETURN_IF_ERROR(cli::write_file(flags.output, text));
  report.written_to(flags.output);
  report.finish();
  return {};
}

}  // namespace

void add_probe(CLI::App& roofline, int& exit_code) {
  auto flags = std::make_shared<ProbeFlags>();
  CLI::App& verb = *roofline.add_subcommand(
      "probe", "Measure this machine and store the result as its hardware description");
  verb.add_option("--threads", flags->num_threads,
                  "Number of compute threads; 0: one per physical core")
      ->check(cli::in_range(0, 1024));
  verb.add_option("--output", flags->output,
                  "File to write; default: the file that --hardware auto reads");
  cli::add_json_flag(verb, flags->as_json);
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_probe(*flags)); });
}

void add_calibrate(CLI::App& roofline, int& exit_code) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App& verb = *roofline.add_subcommand(
      "calibrate", "Fit a hardware description to step logs or tables of operator times");
  verb.add_option("FILE", flags->inputs,
                  "Step logs (of --step-log) or CSV tables of operator times")
      ->required();
  verb.add_option("--hardware", flags->hardware,
                  "Description to start from, as in quire roofline. Its limits stay, and its "
                  "attention constants are used where steps do not determine them")
      ->capture_default_str();
  verb.add_option("--threads", flags->num_threads,
                  "With --hardware auto: number of compute threads of the measured run; 0: one per "
                  "physical core")
      ->check(cli::in_range(0, 1024));
  verb.add_option("--output", flags->output, "File for the fitted hardware description");
  verb.add_flag("--judge-only", flags->judge_only,
                "Do not fit; only judge the description by the tables");
  verb.add_flag(
      "--allow-worse", flags->allow_worse,
      "Write the description even if it predicts the tables worse than the one that it replaces");
  verb.add_option("--name", flags->name, "Name of the fitted hardware description");
  cli::add_json_flag(verb, flags->as_json);
  verb.add_flag("--allow-overloaded", flags->steps.allow_overloaded,
                "Accept step logs in which requests wait most of the time");
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_calibrate(*flags)); });
}

}  // namespace quire::roofline
