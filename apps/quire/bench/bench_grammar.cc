// `quire bench grammar` measures structured output over the schemas of MaskBench.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/text_fields.h"
#include "grammar/bench/mask_bench.h"
#include "quire/bench/commands.h"
#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "tokenizer/json/tokenizer_json.h"

namespace quire::bench {
namespace {

struct GrammarBenchFlags {
  std::string schemas, tokenizer;
  int64_t every = 1;
  bool any_order = false;
  bool as_json = false;
  bool verbose = false;
};

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void print_times(const char* name, std::vector<double> values, double unit) {
  std::sort(values.begin(), values.end());
  for (double& value : values) value /= unit;
  fmt::print("{:<32} {:>10.3f} / {:.3f} / {:.3f}   ({} timed)\n", name, percentile(values, 0.5),
             percentile(values, 0.99), percentile(values, 1), values.size());
}

void print_report(const grammar::MaskBenchReport& report) {
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  };
  fmt::print("{:<32} {:>10.1f} %   ({} of {})\n", "schemas passing",
             share(report.num_passing, report.num_schemas), report.num_passing, report.num_schemas);
  fmt::print("{:<32} {:>10.1f} %   ({} of {})\n", "of those with tests",
             share(report.num_passing_with_tests, report.num_with_tests),
             report.num_passing_with_tests, report.num_with_tests);
  fmt::print("{:<32} {:>10}\n", "schemas refused", report.num_not_compiled);
  fmt::print("{:<32} {:>10}\n", "false accepts", report.num_false_accepts);
  fmt::print("{:<32} {:>10}   ({} only because of the order of members)\n", "false rejects",
             report.num_false_rejects, report.num_false_rejects - report.num_refused_by_order);
  fmt::print("{:<32} {:>10}\n", "masks over budget", report.num_budget_errors);
  print_times("mask p50 / p99 / max, us", report.mask_us, 1);
  print_times("compile p50 / p99 / max, ms", report.compile_us, 1e3);
}

void print_mask_json(const grammar::MaskBenchReport& report) {
  const auto times = [](const char* name, std::vector<double> values, double unit) {
    std::sort(values.begin(), values.end());
    for (double& value : values) value /= unit;
    return fmt::format(R"("{0}_p50": {1:.3f}, "{0}_p99": {2:.3f}, "{0}_max": {3:.3f})", name,
                       percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1));
  };
  double sum_us = 0;
  for (const double us : report.mask_us) sum_us += us;
  fmt::print(
      R"({{"schemas": {}, "passing": {}, "refused": {}, "crashes": 0, "false_accepts": {}, )"
      R"("false_rejects": {}, "refused_by_order": {}, "over_budget": {}, "mask_us_mean": {:.3f}, {}, {}}})"
      "\n",
      report.num_schemas, report.num_passing, report.num_not_compiled, report.num_false_accepts,
      report.num_false_rejects, report.num_refused_by_order, report.num_budget_errors,
      sum_us / static_cast<double>(std::max<size_t>(report.mask_us.size(), 1)),
      times("mask_us", report.mask_us, 1), times("compile_ms", report.compile_us, 1e3));
}

Status run_grammar(const GrammarBenchFlags& flags) {
  constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_text(flags.tokenizer, kMaxTokenizerBytes));
  QUIRE_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer_from_json(text));
  const grammar::Vocabulary vocabulary(*tokenizer, {}, 0);
  std::ifstream file(flags.schemas);
  if (!file) return not_found("{}: cannot be opened", flags.schemas);
  grammar::MaskBenchReport report;
  std::string line;
  for (int64_t index = 0; std::getline(file, line); ++index) {
    if (index % flags.every != 0) continue;
    QUIRE_RETURN_IF_ERROR(grammar::run_mask_bench(line, *tokenizer, vocabulary,
                                                  {.any_order = flags.any_order}, report));
  }
  if (flags.as_json) {
    print_mask_json(report);
    return {};
  }
  if (flags.verbose) {
    for (const std::string& note : report.notes) fmt::print("{}\n", note);
  }
  fmt::print("vocabulary of {} tokens, one thread\n", tokenizer->vocab_size());
  print_report(report);
  return {};
}

}  // namespace

void add_grammar(CLI::App& bench, int& exit_code) {
  CLI::App& verb = *bench.add_subcommand("grammar",
                                         "Measure structured output over the schemas of MaskBench: "
                                         "which schemas pass, and the times of masks");
  auto flags = std::make_shared<GrammarBenchFlags>();
  verb.add_option(
          "SCHEMAS", flags->schemas,
          "File with MaskBench as JSON lines: objects with name, schema and tests (not compressed)")
      ->required();
  verb.add_option("--tokenizer", flags->tokenizer,
                  "File tokenizer.json with the vocabulary for which masks are computed")
      ->required();
  verb.add_option("--every", flags->every, "Take only every n-th schema")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_flag("--any-order", flags->any_order,
                "Accept the members of objects in any order (default: in the order of the schema)");
  verb.add_flag("--json", flags->as_json, "Print one line of JSON instead of text");
  verb.add_flag("--verbose", flags->verbose,
                "Print a line for each wrong result and slow mask: which schema, where and why");
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_grammar(*flags)); });
}

}  // namespace quire::bench
