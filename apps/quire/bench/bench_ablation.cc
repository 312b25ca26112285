// `quire bench ablation` runs one workload with static batches of whole requests and with
// continuous batching, each with a contiguous reservation for the longest output and with paged KV.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "engine/observe/engine_stats.h"
#include "facade/model_bundle.h"
#include "facade/speculation/speculative_config.h"
#include "quire/bench/commands.h"
#include "quire/bench/engine_load.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"

namespace quire::bench {
namespace {

namespace json = boost::json;

struct AblationFlags {
  EngineArgs engine;
  int32_t num_prompts = 48;
  // The defaults are about the mean lengths of ShareGPT conversations (161 in, 338 out; Kwon et
  // al., PagedAttention, SOSP 2023).
  int32_t input_len = 160;
  int32_t min_output_len = 16;
  int32_t max_output_len = 660;
  int32_t num_kv_tokens = 16384;  // tokens that the two allocators compete for
  int32_t num_repeats = 1;
  uint64_t seed = 0;
  bool show_progress = false;
  bool as_json = false;
};

struct Mode {
  const char* name;
  BatchingMode batching;
  KvReservation reservation;
};
constexpr Mode kModes[] = {
    {"static batches, contiguous", BatchingMode::kStaticBatches, KvReservation::kContiguousMaxLen},
    {"static batches, paged", BatchingMode::kStaticBatches, KvReservation::kPaged},
    {"continuous, contiguous", BatchingMode::kContinuous, KvReservation::kContiguousMaxLen},
    {"continuous, paged", BatchingMode::kContinuous, KvReservation::kPaged},
};

struct Outcome {
  double output_tokens_per_s = 0;
  double wasted_kv_share = 0;
  double mean_wait_s = 0;
};

// Output lengths are uniform, so that a static batch waits for its longest member as real ones do.
std::vector<GenerationRequest> workload(const AblationFlags& flags, const AsyncEngine& engine) {
  std::mt19937_64 rng(flags.seed);
  std::uniform_int_distribution<int32_t> output_len(flags.min_output_len, flags.max_output_len);
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < flags.num_prompts; ++i) {
    const int32_t length = output_len(rng);
    requests.push_back(random_request(rng, engine.model_info().vocab_size, flags.input_len, length,
                                      engine.clock()));
  }
  return requests;
}

Result<Outcome> run_mode(const AblationFlags& flags, const Mode& mode) {
  EngineArgs args = flags.engine;
  args.engine.scheduler.batching = mode.batching;
  args.engine.scheduler.max_model_len = flags.input_len + flags.max_output_len;
  args.engine.kv.reservation = mode.reservation;
  args.engine.kv.enable_prefix_caching = false;
  if (args.speculative_config.empty()) args.speculative_config = kNoDrafts;
  args.engine.num_blocks = flags.num_kv_tokens / args.block_size + 1;
  args.engine.log_interval_us = 0;
  QUIRE_ASSIGN_OR_RETURN(const RunningModel model, start_model(args));
  std::vector<GenerationRequest> requests = workload(flags, *model.engine);
  double output_tokens = 0;
  for (const GenerationRequest& request : requests) output_tokens += request.params.max_tokens;
  QUIRE_ASSIGN_OR_RETURN(const BatchTiming timing, run_batch(*model.engine, std::move(requests)));
  const EngineStats stats = model.engine->stats();
  const Histogram& wait = stats.request_queue_time_seconds;
  return Outcome{.output_tokens_per_s = output_tokens / timing.total_s,
                 .wasted_kv_share = stats.wasted_kv_share,
                 .mean_wait_s = wait.count == 0 ? 0 : wait.sum / static_cast<double>(wait.count)};
}

constexpr size_t kNumModes = std::size(kModes);

// The figures of each mode, which are medians of the repeats.
struct Outcomes {
  std::vector<double> rates, waits;
  std::vector<double> wasted_kv_shares;
};

Result<Outcomes> run_modes(const AblationFlags& flags) {
  const cli::ProgressBar progress = cli::progress_bar("running", flags.show_progress);
  std::vector<double> rates[kNumModes], waits[kNumModes];
  Outcomes outcomes;
  outcomes.wasted_kv_shares.resize(kNumModes);
  // The variants take turns, so that drift of the machine hits all of them alike.
  for (int32_t repeat = 0; repeat < flags.num_repeats; ++repeat) {
    for (size_t m = 0; m < kNumModes; ++m) {
      QUIRE_ASSIGN_OR_RETURN(const Outcome outcome, run_mode(flags, kModes[m]));
      rates[m].push_back(outcome.output_tokens_per_s);
      waits[m].push_back(outcome.mean_wait_s);
      outcomes.wasted_kv_shares[m] = outcome.wasted_kv_share;
      const int64_t num_done = repeat * int64_t{kNumModes} + static_cast<int64_t>(m) + 1;
      if (progress) progress(num_done, flags.num_repeats * int64_t{kNumModes});
    }
  }
  for (size_t m = 0; m < kNumModes; ++m) {
    outcomes.rates.push_back(median(rates[m]));
    outcomes.waits.push_back(median(waits[m]));
  }
  return outcomes;
}

void print_outcomes(const AblationFlags& flags, const Outcomes& outcomes) {
  fmt::print(
      "{} requests, {} prompt tokens, {} to {} output tokens, KV memory for {} tokens; medians of "
      "{} runs\n",
      flags.num_prompts, flags.input_len, flags.min_output_len, flags.max_output_len,
      flags.num_kv_tokens, flags.num_repeats);
  fmt::print("{:<28} {:>16} {:>8} {:>12} {:>12}\n", "", "output tokens/s", "ratio", "wasted KV %",
             "mean wait s");
  for (size_t m = 0; m < kNumModes; ++m) {
    fmt::print("{:<28} {:>16.1f} {:>8.2f} {:>12.1f} {:>12.2f}\n", kModes[m].name, outcomes.rates[m],
               outcomes.rates[m] / outcomes.rates[0], 100 * outcomes.wasted_kv_shares[m],
               outcomes.waits[m]);
  }
}

json::object to_json(const AblationFlags& flags, const Outcomes& outcomes) {
  json::array modes;
  for (size_t m = 0; m < kNumModes; ++m) {
    modes.push_back(json::object{{"mode", kModes[m].name},
                                 {"output_tokens_per_s", outcomes.rates[m]},
                                 {"ratio", outcomes.rates[m] / outcomes.rates[0]},
                                 {"wasted_kv_share", outcomes.wasted_kv_shares[m]},
                                 {"mean_wait_s", outcomes.waits[m]}});
  }
  return {{"num_prompts", flags.num_prompts},
          {"input_len", flags.input_len},
          {"min_output_len", flags.min_output_len},
          {"max_output_len", flags.max_output_len},
          {"num_kv_tokens", flags.num_kv_tokens},
          {"num_repeats", flags.num_repeats},
          {"modes", std::move(modes)}};
}

Status run_ablation(AblationFlags& flags) {
  // Batching only gains speed when a step is bound by reading weights, as it is for served models,
  // so the default is not the built-in model.
  if (flags.engine.model.empty() && flags.engine.shape.empty()) flags.engine.shape = "qwen2.5-0.5b";
  if (flags.min_output_len > flags.max_output_len) {
    return invalid_argument("--min-output-len: expected at most --max-output-len ({}), got {}",
                            flags.max_output_len, flags.min_output_len);
  }
  if (flags.num_kv_tokens < flags.input_len + flags.max_output_len) {
    return invalid_argument(
        "--num-kv-tokens: expected at least --input-len + --max-output-len ({}), got {}",
        flags.input_len + flags.max_output_len, flags.num_kv_tokens);
  }
  QUIRE_ASSIGN_OR_RETURN(const Outcomes outcomes, run_modes(flags));
  if (flags.as_json) {
    cli::print_json(to_json(flags, outcomes));
  } else {
    print_outcomes(flags, outcomes);
  }
  return {};
}

}  // namespace

void add_ablation(CLI::App& bench, int& exit_code) {
  CLI::App& verb = *bench.add_subcommand(
      "ablation",
      "Compare static with continuous batching and contiguous with paged KV on one workload");
  auto flags = std::make_shared<AblationFlags>();
  cli::add_model_argument(verb, flags->engine);
  verb.add_option("--shape", flags->engine.shape,
                  "Use random weights instead of MODEL: in a named shape, or in the shape of a "
                  "config.json; default: qwen2.5-0.5b");
  verb.add_option("--num-prompts", flags->num_prompts,
                  "Number of requests, which are all submitted at once")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--input-len", flags->input_len, "Number of prompt tokens of each request")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--min-output-len", flags->min_output_len,
                  "Smallest number of output tokens of a request")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--max-output-len", flags->max_output_len,
                  "Largest number of output tokens of a request")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--num-kv-tokens", flags->num_kv_tokens, "Size of the KV cache in tokens")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--num-repeats", flags->num_repeats,
                  "Number of runs of each mode; the modes take turns")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--seed", flags->seed, "Seed of random lengths and prompts")
      ->capture_default_str();
  cli::add_progress_flag(verb, flags->show_progress);
  cli::add_json_flag(verb, flags->as_json);
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_ablation(*flags)); });
}

}  // namespace quire::bench
