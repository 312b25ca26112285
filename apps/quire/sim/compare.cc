// `quire compare` shows the figures of a measured run beside those of simulated ones.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text_fields.h"
#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"
#include "roofline/hardware/json_fields.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxResultBytes = size_t{1} << 30;

struct CompareFlags {
  std::string measured;
  std::vector<std::string> predicted;
  std::optional<double> max_error_percent;
  bool as_json = false;
};

struct Figure {
  std::string_view label;
  std::string_view key;  // the key in results of bench serve and of simulate
  bool judged;           // counts against --max-error
};

constexpr Figure kFigures[] = {
    {"requests", "completed", false},
    {"duration s", "duration", false},
    {"requests/s", "request_throughput", false},
    {"output tokens/s", "output_throughput", true},
    {"TTFT mean ms", "mean_ttft_ms", false},
    {"TTFT median ms", "median_ttft_ms", true},
    {"TTFT p99 ms", "p99_ttft_ms", false},
    {"TPOT mean ms", "mean_tpot_ms", true},
    {"TPOT median ms", "median_tpot_ms", false},
    {"TPOT p99 ms", "p99_tpot_ms", false},
    {"ITL mean ms", "mean_itl_ms", false},
    {"ITL p99 ms", "p99_itl_ms", false},
    {"E2E mean ms", "mean_e2el_ms", true},
    {"E2E median ms", "median_e2el_ms", false},
    {"E2E p99 ms", "p99_e2el_ms", false},
};

Result<boost::json::object> read_result(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxResultBytes));
  return parse_json_object(text, path, kMaxResultBytes);
}

std::optional<double> figure_of(const boost::json::object& result, std::string_view key) {
  const boost::json::value* value = result.if_contains({key.data(), key.size()});
  boost::json::error_code error;
  const double number = value == nullptr ? 0 : value->to_number<double>(error);
  return value == nullptr || error ? std::nullopt : std::optional(number);
}

struct ComparedFigure {
  Figure figure;
  double measured = 0;
  std::vector<std::optional<double>> predicted;  // one entry per file

  double error_percent(size_t file) const { return 100 * (*predicted[file] / measured - 1); }
};

// Returns the figures that were measured and are above 0.
std::vector<ComparedFigure> rows_of(const boost::json::object& measured,
                                    const std::vector<boost::json::object>& predicted) {
  std::vector<ComparedFigure> rows;
  for (const Figure& figure : kFigures) {
    const std::optional<double> real = figure_of(measured, figure.key);
    if (!real || *real <= 0) continue;
    ComparedFigure row{.figure = figure, .measured = *real};
    for (const boost::json::object& one : predicted) {
      row.predicted.push_back(figure_of(one, figure.key));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_rows(const CompareFlags& flags, const std::vector<ComparedFigure>& rows) {
  fmt::print("{:<16} {:>12}", "", "measured");
  for (const std::string& path : flags.predicted) {
    fmt::print(" {:>22}", std::string_view(path).substr(path.find_last_of('/') + 1));
  }
  fmt::print("\n");
  for (const ComparedFigure& row : rows) {
    fmt::print("{:<16} {:>12.2f}", row.figure.label, row.measured);
    for (size_t i = 0; i < row.predicted.size(); ++i) {
      if (row.predicted[i]) {
        fmt::print(" {:>12.2f} {:>+7.1f} %", *row.predicted[i], row.error_percent(i));
      } else {
        fmt::print(" {:>22}", "-");
      }
    }
    fmt::print("\n");
  }
}

boost::json::object to_json(const CompareFlags& flags, const std::vector<ComparedFigure>& rows) {
  boost::json::array figures;
  for (const ComparedFigure& row : rows) {
    boost::json::array predicted;
    for (size_t i = 0; i < row.predicted.size(); ++i) {
      if (row.predicted[i]) {
        predicted.push_back(boost::json::object{{"value", *row.predicted[i]},
                                                {"error_percent", row.error_percent(i)}});
      } else {
        predicted.push_back(nullptr);
      }
    }
    figures.push_back(boost::json::object{
        {"name", row.figure.key}, {"measured", row.measured}, {"predicted", std::move(predicted)}});
  }
  return {{"measured", flags.measured},
          {"predicted", boost::json::value_from(flags.predicted)},
          {"figures", std::move(figures)}};
}

// Compares the errors of the judged figures with --max-error.
Status check_errors(const CompareFlags& flags, const std::vector<ComparedFigure>& rows) {
  int32_t num_judged = 0;
  double worst_percent = 0;
  std::string worst, missing;
  for (const ComparedFigure& row : rows) {
    for (size_t i = 0; row.figure.judged && i < row.predicted.size(); ++i) {
      if (!row.predicted[i]) {
        missing = fmt::format("{} in {}", row.figure.key, flags.predicted[i]);
        continue;
      }
      ++num_judged;
      if (std::abs(row.error_percent(i)) <= worst_percent) continue;
      worst_percent = std::abs(row.error_percent(i));
      worst = fmt::format("{} of {}", row.figure.label, flags.predicted[i]);
    }
  }
  if (num_judged == 0 || !missing.empty()) {
    return invalid_argument("--max-error: expected {}, found none",
                            missing.empty() ? "output_throughput, median_ttft_ms, mean_tpot_ms or "
                                              "mean_e2el_ms in " +
                                                  flags.measured
                                            : missing);
  }
  if (worst_percent <= *flags.max_error_percent) return {};
  return unavailable("{} differs by {:.1f} %, more than {:g} %", worst, worst_percent,
                     *flags.max_error_percent);
}

Status run_compare(const CompareFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object measured, read_result(flags.measured));
  std::vector<boost::json::object> predicted;
  for (const std::string& path : flags.predicted) {
    QUIRE_ASSIGN_OR_RETURN(boost::json::object one, read_result(path));
    predicted.push_back(std::move(one));
  }
  const std::vector<ComparedFigure> rows = rows_of(measured, predicted);
  const bool any_compared = std::any_of(rows.begin(), rows.end(), [](const ComparedFigure& row) {
    return std::any_of(row.predicted.begin(), row.predicted.end(),
                       [](const std::optional<double>& value) { return value.has_value(); });
  });
  if (!any_compared) {
    return invalid_argument(
        "{}: expected a result of bench serve --save-result, and after it results of simulate "
        "--json with the same figures",
        flags.measured);
  }
  if (flags.as_json) {
    print_json(to_json(flags, rows));
  } else {
    print_rows(flags, rows);
  }
  return flags.max_error_percent ? check_errors(flags, rows) : Status();
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "compare",
      "Show the figures of a measured run beside those of simulated runs, with their errors");
  auto flags = std::make_shared<CompareFlags>();
  verb.add_option("MEASURED", flags->measured,
                  "Result file of the measured run (quire bench serve --save-result)")
      ->required();
  verb.add_option("PREDICTED", flags->predicted,
                  "Result files of simulated runs (quire simulate --json)")
      ->required();
  verb.add_option("--max-error", flags->max_error_percent,
                  "Fail when one of output tokens/s, median TTFT, mean TPOT and mean E2E differs "
                  "by more than this many percent")
      ->check(CLI::NonNegativeNumber);
  add_json_flag(verb, flags->as_json);
  verb.callback([flags, &exit_code] { exit_code = report(run_compare(*flags)); });
}

}  // namespace quire::cli
