// `quire roofline residuals` judges a hardware description by measured steps that it was not fitted
// to.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <map>

#include "facade/hardware/machine_hardware.h"
#include "quire/commands.h"
#include "quire/json_output.h"
#include "quire/output_file.h"
#include "quire/roofline/commands.h"
#include "roofline/calibrate/calibrate_steps.h"
#include "sim/report/svg_plot.h"

namespace quire::roofline {
namespace {

namespace json = boost::json;

constexpr std::string_view kPlotStyle =
    "<style>text{font:11px system-ui,sans-serif;fill:#475569}.title{font-size:13px;font-weight:600}"
    ".grid{stroke:#e2e8f0}.f0{fill:#2563eb}.f1{fill:#d97706}.f2{fill:#16a34a}</style>";

struct ResidualFlags {
  std::string log;
  std::string hardware = "auto";
  std::string csv, plot;
  bool as_json = false;
};

class Errors {
 public:
  void add(double error, double measured_us) {
    sizes_.push_back(std::abs(error));
    bias_ += error;
    measured_us_ += measured_us;
    error_us_ += error * measured_us;
  }
  // Four of the members are shares: 0.1 is 10 %.
  struct Figures {
    int64_t num_steps = 0;
    double median = 0, mean = 0;  // of absolute errors
    double bias = 0;
    double sum = 0;  // the error of the sum of all times
  };
  Figures figures() {
    if (sizes_.empty()) return {};
    const auto count = static_cast<double>(sizes_.size());
    const auto middle = sizes_.begin() + static_cast<std::ptrdiff_t>(sizes_.size() / 2);
    std::nth_element(sizes_.begin(), middle, sizes_.end());
    Figures figures{.num_steps = static_cast<int64_t>(sizes_.size()), .median = *middle};
    for (const double size : sizes_) figures.mean += size / count;
    figures.bias = bias_ / count;
    figures.sum = error_us_ / measured_us_;
    return figures;
  }

 private:
  std::vector<double> sizes_;
  double bias_ = 0, measured_us_ = 0, error_us_ = 0;
};

std::string text_of(const Errors::Figures& errors) {
  if (errors.num_steps == 0) return "none";
  return fmt::format(
      "{:6} steps: median {:5.1f} %, mean {:5.1f} %, bias {:+5.1f} %, sum {:+5.1f} %",
      errors.num_steps, 100 * errors.median, 100 * errors.mean, 100 * errors.bias,
      100 * errors.sum);
}

json::object to_json(const std::string& steps, const Errors::Figures& errors) {
  return {{"steps", steps},
          {"num_steps", errors.num_steps},
          {"median_error_percent", 100 * errors.median},
          {"mean_error_percent", 100 * errors.mean},
          {"bias_percent", 100 * errors.bias},
          {"sum_error_percent", 100 * errors.sum}};
}

std::string standalone(std::string svg) {
  const size_t open = svg.find('>');
  svg.insert(open + 1, kPlotStyle);
  return svg.insert(svg.find("<svg") + 4, " xmlns=\"http://www.w3.org/2000/svg\"");
}

std::string residual_plot(const std::vector<StepResidual>& residuals, const std::string& title) {
  std::vector<sim::Series> series(3);
  for (int kind = 0; kind < 3; ++kind) {
    series[static_cast<size_t>(kind)] = {
        .name = std::string(to_string(static_cast<StepKind>(kind))), .dots = true};
  }
  for (const StepResidual& r : residuals) {
    series[static_cast<size_t>(r.kind)].points.emplace_back(std::max(r.step->shape.num_tokens, 1),
                                                            r.predicted_us / r.measured_us);
  }
  return standalone(sim::svg_plot({.title = title,
                                   .x_label = "tokens of the step",
                                   .y_label = "predicted / measured",
                                   .log_x = true,
                                   .y_max = 2},
                                  series));
}

std::string residual_csv(const std::vector<StepResidual>& residuals) {
  std::string out =
      "step,kind,tokens,requests,sampled,decodes,decode_context,chunks,measured_us,predicted_us\n";
  for (const StepResidual& r : residuals) {
    const StepShape& shape = r.step->shape;
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{:.1f},{:.1f}\n",
                   r.step->step_id, to_string(r.kind), shape.num_tokens, shape.num_requests,
                   shape.num_sampled, shape.decode.num_requests, shape.decode.context,
                   shape.chunks.size(), r.measured_us, r.predicted_us);
  }
  return out;
}

struct ErrorRow {
  std::string steps;  // names the steps of this row
  Errors::Figures errors;
};

// Returns a row for each kind of step, for each size, and for all.
std::vector<ErrorRow> error_rows(const std::vector<StepResidual>& residuals) {
  std::map<StepKind, Errors> by_kind;
  std::map<int, Errors> by_size;  // by log2 of the number of tokens
  Errors all;
  for (const StepResidual& r : residuals) {
    const double error = r.predicted_us / r.measured_us - 1;
    by_kind[r.kind].add(error, r.measured_us);
    by_size[static_cast<int>(std::log2(std::max(r.step->shape.num_tokens, 1)))].add(error,
                                                                                    r.measured_us);
    all.add(error, r.measured_us);
  }
  std::vector<ErrorRow> rows;
  rows.reserve(by_kind.size() + by_size.size() + 1);
  for (auto& [kind, errors] : by_kind) {
    rows.push_back({std::string(to_string(kind)), errors.figures()});
  }
  for (auto& [size, errors] : by_size) {
    rows.push_back({fmt::format("{} to {} tokens", 1 << size, (2 << size) - 1), errors.figures()});
  }
  rows.push_back({"all", all.figures()});
  return rows;
}

Status run_residuals(const ResidualFlags& flags) {
  QUIRE_RETURN_IF_ERROR(cli::check_writable(flags.csv));
  QUIRE_RETURN_IF_ERROR(cli::check_writable(flags.plot));
  QUIRE_ASSIGN_OR_RETURN(const Hardware hardware, resolve_hardware(flags.hardware, {}));
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_input(flags.log));
  QUIRE_ASSIGN_OR_RETURN(const StepLog log, parse_step_log(text, flags.log));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<StepResidual> residuals, step_residuals(log, hardware));
  const std::vector<ErrorRow> rows = error_rows(residuals);
  if (flags.as_json) {
    json::array errors;
    for (const ErrorRow& row : rows) errors.push_back(to_json(row.steps, row.errors));
    cli::print_json(json::object{{"step_log", flags.log},
                                 {"hardware", hardware.name},
                                 {"model", log.header.model.name},
                                 {"errors", std::move(errors)}});
  } else {
    fmt::print("{} on {}, {} steps of {}\n", flags.log, hardware.name, residuals.size(),
               log.header.model.name);
    for (const ErrorRow& row : rows) fmt::print("{:<18} {}\n", row.steps, text_of(row.errors));
  }
  if (!flags.csv.empty()) {
    QUIRE_RETURN_IF_ERROR(cli::write_file(flags.csv, residual_csv(residuals)));
  }
  if (flags.plot.empty()) return {};
  return cli::write_file(flags.plot,
                         residual_plot(residuals, log.header.model.name + " on " + hardware.name));
}

}  // namespace

void add_residuals(CLI::App& roofline, int& exit_code) {
  auto flags = std::make_shared<ResidualFlags>();
  CLI::App& verb = *roofline.add_subcommand(
      "residuals",
      "Judge a hardware description by a step log: compare predicted with measured times");
  verb.add_option("STEPLOG", flags->log, "Step log that quire serve --step-log wrote")->required();
  verb.add_option("--hardware", flags->hardware,
                  "Hardware description to judge, as in quire roofline")
      ->capture_default_str();
  cli::add_json_flag(verb, flags->as_json);
  verb.add_option("--csv", flags->csv, "Write one row per step to this CSV file");
  verb.add_option(
      "--plot", flags->plot,
      "Write a plot to FILE.svg: predicted divided by measured time, over the tokens of the step");
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_residuals(*flags)); });
}

}  // namespace quire::roofline
