// `quire compare` puts the figures of a measured run beside those of simulated ones.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text_fields.h"
#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "roofline/hardware/json_fields.h"

namespace quire::cli {
namespace {

constexpr size_t kMaxResultBytes = size_t{1} << 30;

struct CompareFlags {
  std::string measured;
  std::vector<std::string> predicted;
  std::optional<double> max_error_percent;
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

Status run_compare(const CompareFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object measured, read_result(flags.measured));
  std::vector<boost::json::object> predicted;
  for (const std::string& path : flags.predicted) {
    QUIRE_ASSIGN_OR_RETURN(boost::json::object one, read_result(path));
    predicted.push_back(std::move(one));
  }
  fmt::print("{:<16} {:>12}", "", "measured");
  for (const std::string& path : flags.predicted) {
    fmt::print(" {:>22}", std::string_view(path).substr(path.find_last_of('/') + 1));
  }
  fmt::print("\n");
  int32_t num_compared = 0, num_judged = 0;
  double worst_percent = 0;
  std::string worst, missing;  // among the judged figures
  for (const Figure& figure : kFigures) {
    const std::optional<double> real = figure_of(measured, figure.key);
    if (!real || *real <= 0) continue;
    fmt::print("{:<16} {:>12.2f}", figure.label, *real);
    for (size_t i = 0; i < predicted.size(); ++i) {
      const std::optional<double> value = figure_of(predicted[i], figure.key);
      if (!value) {
        fmt::print(" {:>22}", "-");
        if (figure.judged) missing = fmt::format("{} in {}", figure.key, flags.predicted[i]);
        continue;
      }
      const double percent = 100 * (*value / *real - 1);
      ++num_compared;
      num_judged += figure.judged ? 1 : 0;
      fmt::print(" {:>12.2f} {:>+7.1f} %", *value, percent);
      if (!figure.judged || std::abs(percent) <= worst_percent) continue;
      worst_percent = std::abs(percent);
      worst = fmt::format("{} of {}", figure.label, flags.predicted[i]);
    }
    fmt::print("\n");
  }
  if (num_compared == 0) {
    return invalid_argument(
        "{}: expected a result of bench serve --save-result, and beside it one of simulate --json",
        flags.measured);
  }
  if (flags.max_error_percent && (num_judged == 0 || !missing.empty())) {
    return invalid_argument("--max-error: expected {}, got none",
                            missing.empty() ? "output_throughput, median_ttft_ms, mean_tpot_ms or "
                                              "mean_e2el_ms in " +
                                                  flags.measured
                                            : missing);
  }
  if (flags.max_error_percent && worst_percent > *flags.max_error_percent) {
    return unavailable("{} is off by {:.1f} %, more than {:g} %", worst, worst_percent,
                       *flags.max_error_percent);
  }
  return {};
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "compare", "Figures of a measured run beside those of simulated ones, with errors");
  auto flags = std::make_shared<CompareFlags>();
  verb.add_option("MEASURED", flags->measured, "What bench serve --save-result wrote")->required();
  verb.add_option("PREDICTED", flags->predicted, "What simulate --json wrote")->required();
  verb.add_option("--max-error", flags->max_error_percent,
                  "Fail when output tokens/s, median TTFT, mean TPOT or mean E2E is off by more "
                  "percent")
      ->check(CLI::NonNegativeNumber);
  verb.callback([flags, &exit_code] { exit_code = report(run_compare(*flags)); });
}

}  // namespace quire::cli
