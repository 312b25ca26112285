// `quire bench contention` measures the speed of the engine while other programs keep some cores
// busy.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <memory>
#include <random>

#include "base/threads/cpu_topology.h"
#include "facade/model_bundle.h"
#include "facade/speculation/speculative_config.h"
#include "quire/bench/commands.h"
#include "quire/bench/engine_load.h"
#include "quire/bench/neighbours.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"

namespace quire::bench {
namespace {

namespace json = boost::json;

struct ContentionFlags {
  EngineArgs engine;
  int32_t input_len = 128;
  int32_t output_len = 64;
  int32_t num_neighbours = 1;
  int32_t num_rounds = 5;
  bool as_json = false;
};

struct Scenario {
  const char* name;
  bool is_reduced;  // runs with one thread less for each neighbour
  NeighbourKind neighbours;
};
constexpr Scenario kScenarios[] = {
    {"all threads, no neighbours", false, NeighbourKind::kNone},
    {"fewer threads, no neighbours", true, NeighbourKind::kNone},
    {"fewer threads, steady neighbours", true, NeighbourKind::kSteady},
    {"all threads, steady neighbours", false, NeighbourKind::kSteady},
    {"all threads, on-off neighbours", false, NeighbourKind::kOnOff},
};
constexpr size_t kNumScenarios = std::size(kScenarios);
constexpr size_t kFewerQuiet = 1;  // the scenario that the others are compared with

struct Measured {
  std::vector<double> prefill_ms;  // by round
  std::vector<double> step_ms;     // of every decode step
  int64_t late_members = 0;
};

struct Figures {
  double prefill_ms = 0;  // median
  double step_ms = 0;     // median
  double step_p99_ms = 0;
  double step_mean_ms = 0;  // its inverse is the speed
};

Figures figures_of(const Measured& measured) {
  Figures figures{.prefill_ms = median(measured.prefill_ms), .step_ms = median(measured.step_ms)};
  std::vector<double> sorted = measured.step_ms;
  if (sorted.empty()) return figures;
  std::sort(sorted.begin(), sorted.end());
  figures.step_p99_ms = sorted[std::min(sorted.size() - 1, sorted.size() * 99 / 100)];
  for (const double step : sorted) figures.step_mean_ms += step;
  figures.step_mean_ms /= static_cast<double>(sorted.size());
  return figures;
}

Result<RunningModel> start_with(ContentionFlags& flags, int32_t num_threads) {
  EngineArgs args = flags.engine;
  args.num_threads = num_threads;
  args.on_progress = cli::loading_bar();
  args.engine.log_interval_us = 0;
  args.engine.kv.enable_prefix_caching = false;
  if (args.speculative_config.empty()) args.speculative_config = kNoDrafts;
  if (args.engine.scheduler.max_model_len == 0) {
    args.engine.scheduler.max_model_len = flags.input_len + flags.output_len;
  }
  return start_model(args);
}

// Runs one prompt and its answer while the neighbours of the scenario run.
Status measure_round(const ContentionFlags& flags, const RunningModel& model,
                     const Scenario& scenario, std::mt19937_64& rng, Measured& measured) {
  const std::vector<StepRecord> before = model.engine->recent_steps();
  QUIRE_ASSIGN_OR_RETURN(const Neighbours neighbours,
                         Neighbours::start(scenario.neighbours, flags.num_neighbours));
  std::vector<GenerationRequest> requests;
  requests.push_back(random_request(rng, model.engine->model_info().vocab_size, flags.input_len,
                                    flags.output_len, model.engine->clock()));
  QUIRE_ASSIGN_OR_RETURN(const BatchTiming timing, run_batch(*model.engine, std::move(requests)));
  measured.prefill_ms.push_back(timing.first_token_s * 1e3);
  for (const StepRecord& step : model.engine->recent_steps()) {
    if (!before.empty() && step.step_id <= before.back().step_id) continue;
    measured.late_members += step.executor.late_members;
    if (step.num_decodes == 1 && step.num_tokens == 1) {
      measured.step_ms.push_back(static_cast<double>(step.total_us()) * 1e-3);
    }
  }
  return {};
}

// The scenarios take turns, so that a drift of the machine's speed affects all of them. The
// first round is a warm-up.
Result<std::vector<Measured>> measure(const ContentionFlags& flags, const RunningModel& all,
                                      const RunningModel& fewer) {
  std::mt19937_64 rng(0);
  std::vector<Measured> measured(kNumScenarios);
  for (int32_t round = 0; round <= flags.num_rounds; ++round) {
    if (round == 1) measured.assign(kNumScenarios, {});
    for (size_t i = 0; i < kNumScenarios; ++i) {
      const Scenario& scenario = kScenarios[i];
      QUIRE_RETURN_IF_ERROR(
          measure_round(flags, scenario.is_reduced ? fewer : all, scenario, rng, measured[i]));
    }
  }
  return measured;
}

json::array to_json(const std::vector<Measured>& measured) {
  json::array rows;
  for (size_t i = 0; i < kNumScenarios; ++i) {
    const Figures figures = figures_of(measured[i]);
    rows.push_back(json::object{{"scenario", kScenarios[i].name},
                                {"prefill_ms", figures.prefill_ms},
                                {"step_ms", figures.step_ms},
                                {"step_p99_ms", figures.step_p99_ms},
                                {"step_mean_ms", figures.step_mean_ms},
                                {"late_members", measured[i].late_members}});
  }
  return rows;
}

void print_figures(const std::vector<Measured>& measured) {
  const Figures base = figures_of(measured[kFewerQuiet]);
  fmt::print("{:<32} {:>10} {:>8} {:>8} {:>8} {:>10} {:>8} {:>6}\n", "", "prompt ms", "step ms",
             "p99 ms", "p99/med", "mean ms", "speed", "late");
  for (size_t i = 0; i < kNumScenarios; ++i) {
    const Figures figures = figures_of(measured[i]);
    fmt::print("{:<32} {:>10.1f} {:>8.2f} {:>8.2f} {:>8.2f} {:>10.2f} {:>8.2f} {:>6}\n",
               kScenarios[i].name, figures.prefill_ms, figures.step_ms, figures.step_p99_ms,
               figures.step_p99_ms / figures.step_ms, figures.step_mean_ms,
               base.step_mean_ms / figures.step_mean_ms, measured[i].late_members);
  }
  fmt::print(
      "speed: mean decode speed divided by that of fewer threads without neighbours\n"
      "late: how often a compute thread had to wait for a core\n");
}

Status run_contention(ContentionFlags& flags) {
  const int32_t threads =
      flags.engine.num_threads > 0 ? flags.engine.num_threads : default_num_threads();
  const int32_t fewer_threads = threads - flags.num_neighbours;
  if (fewer_threads < 1) {
    return invalid_argument("--neighbours: expected fewer than the {} compute threads, got {}",
                            threads, flags.num_neighbours);
  }
  QUIRE_ASSIGN_OR_RETURN(const RunningModel all, start_with(flags, threads));
  QUIRE_ASSIGN_OR_RETURN(const RunningModel fewer, start_with(flags, fewer_threads));
  if (!flags.as_json) {
    fmt::print("{}: {} threads, or {} fewer; {} neighbours (busy processes)\n", all.bundle.name,
               threads, flags.num_neighbours, flags.num_neighbours);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Measured> measured, measure(flags, all, fewer));
  if (!flags.as_json) {
    print_figures(measured);
    return {};
  }
  cli::print_json(json::object{{"model", all.bundle.name},
                               {"num_threads", threads},
                               {"num_neighbours", flags.num_neighbours},
                               {"scenarios", to_json(measured)}});
  return {};
}

}  // namespace

void add_contention(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<ContentionFlags>();
  CLI::App& verb = *bench.add_subcommand(
      "contention",
      "Measure the prefill and decode speed while other processes keep some cores busy");
  cli::add_model_argument(verb, flags->engine);
  verb.add_option("--shape", flags->engine.shape,
                  "Use random weights instead of MODEL: in a named shape, such as llama-3.2-1b, or "
                  "in the shape of a config.json");
  verb.add_option("--input-len", flags->input_len, "Number of prompt tokens of each request")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--output-len", flags->output_len, "Number of output tokens of each request")
      ->check(cli::at_least(2))
      ->capture_default_str();
  verb.add_option("--neighbours", flags->num_neighbours,
                  "Number of busy processes, fewer than the compute threads; the model is loaded a "
                  "second time with that many threads fewer")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--num-rounds", flags->num_rounds, "Number of rounds after the warm-up")
      ->check(cli::at_least(1))
      ->capture_default_str();
  cli::add_json_flag(verb, flags->as_json);
  cli::add_engine_flags(verb, flags->engine);
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_contention(*flags)); });
}

}  // namespace quire::bench
