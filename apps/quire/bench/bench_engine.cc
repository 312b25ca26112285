// `quire bench latency` and `quire bench throughput` measure the engine without HTTP.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "facade/model_bundle.h"
#include "facade/speculation/speculative_config.h"
#include "quire/bench/bound.h"
#include "quire/bench/commands.h"
#include "quire/bench/engine_load.h"
#include "quire/bench/step_report.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/launcher.h"
#include "quire/lora_flags.h"

namespace quire::bench {
namespace {

struct EngineBenchFlags {
  EngineArgs engine;
  std::string json_schema;
  int32_t input_len = 512;
  int32_t output_len = 64;
  int32_t batch_size = 1;
  int32_t num_prompts = 64;
  int32_t num_iters = 3;
  uint64_t seed = 0;
  bool show_progress = false;
};

// Ends with an exit code in a process that is a rank behind the first.
std::optional<int> prepare(EngineBenchFlags& flags) {
  if (flags.engine.engine.scheduler.max_model_len == 0)
    flags.engine.engine.scheduler.max_model_len = flags.input_len + flags.output_len;
  return cli::run_as_rank(flags.engine);
}

Result<RunningModel> start_for_bench(EngineBenchFlags& flags) {
  flags.engine.on_progress = cli::loading_bar();
  flags.engine.engine.log_interval_us = 0;
  flags.engine.engine.prepare_at_start = true;
  // Prompts are random, and nothing of them or of the answers may come for free.
  flags.engine.engine.kv.enable_prefix_caching = false;
  if (flags.engine.speculative_config.empty()) flags.engine.speculative_config = kNoDrafts;
  return start_model(flags.engine);
}

void print_machine(const RunningModel& model, const Bound& bound) {
  fmt::print("model    {} ({} weights, {} KV cache)\n", model.bundle.name,
             to_string(model.plan.dtype), to_string(model.plan.kv_dtype));
  fmt::print("machine  reads {:.1f} GB/s, {} multiply-adds {:.0f} GFLOP/s (measured now)\n",
             bound.read_bytes_per_s() * 1e-9, to_string(bound.math()), bound.peak_flops() * 1e-9);
}

struct PhaseTimes {
  double prefill_s = 0, decode_s = 0;  // decode_s is the time of one step; 0: not measured
};

struct LatencyTimes {
  PhaseTimes plain, adapted, constrained;  // of the same requests
};

struct LatencyRun : LatencyTimes {
  Bound bound;
};

std::vector<GenerationRequest> make_batch(const EngineBenchFlags& flags, const RunningModel& model,
                                          std::mt19937_64& rng) {
  std::vector<GenerationRequest> requests;
  for (int32_t r = 0; r < flags.batch_size; ++r) {
    requests.push_back(random_request(rng, model.engine->model_info().vocab_size, flags.input_len,
                                      flags.output_len, model.engine->clock()));
  }
  return requests;
}

// The same requests, which take the adapters in turn; empty without adapters.
std::vector<GenerationRequest> with_adapters(const RunningModel& model,
                                             std::vector<GenerationRequest> requests) {
  if (model.adapters == nullptr) return {};
  const std::vector<LoadedAdapterInfo> adapters = model.adapters->list();
  for (size_t r = 0; r < requests.size(); ++r)
    requests[r].adapter = adapters[r % adapters.size()].adapter;
  return requests;
}

// The same requests, whose answers are of the schema; empty without one.
Result<std::vector<GenerationRequest>> with_schema(const EngineBenchFlags& flags,
                                                   const RunningModel& model,
                                                   std::vector<GenerationRequest> requests) {
  if (flags.json_schema.empty()) return std::vector<GenerationRequest>();
  if (model.bundle.tokenizer == nullptr)
    return invalid_argument("--json-schema: expected a model with a tokenizer");
  StructuredOutputs outputs{.kind = StructuredOutputKind::kJson, .field = "--json-schema"};
  QUIRE_ASSIGN_OR_RETURN(outputs.text, cli::text_or_file(flags.json_schema));
  for (GenerationRequest& request : requests) {
    request.params.eos_token_ids = model.bundle.generation.eos_token_ids;
    request.params.ignore_eos = false;  // an answer that ends early is an error
    request.structured_outputs = outputs;
  }
  return requests;
}

Result<PhaseTimes> run_phases(const EngineBenchFlags& flags, const RunningModel& model,
                              std::vector<GenerationRequest> requests) {
  const int64_t num_tokens = static_cast<int64_t>(requests.size()) * flags.output_len;
  QUIRE_ASSIGN_OR_RETURN(const BatchTiming timing, run_batch(*model.engine, std::move(requests)));
  if (timing.num_tokens < num_tokens) {
    return invalid_argument(
        "--json-schema: expected a schema whose answers have {} tokens, got one that had ended "
        "after {} of {} tokens of all answers",
        flags.output_len, timing.num_tokens, num_tokens);
  }
  return PhaseTimes{timing.first_token_s,
                    (timing.total_s - timing.first_token_s) / std::max(1, flags.output_len - 1)};
}

double median_of(const std::vector<LatencyRun>& runs,
                 const std::function<double(const LatencyRun&)>& value) {
  std::vector<double> values;
  for (const LatencyRun& run : runs) values.push_back(value(run));
  return median(std::move(values));
}

// Every run has its own ceilings, the mean of what is probed before and after it: the speed of
// memory drifts on shared machines, and a share says something only against the limit of its time.
Result<std::vector<LatencyRun>> measure_latency(const EngineBenchFlags& flags,
                                                const RunningModel& model) {
  std::mt19937_64 rng(flags.seed);
  std::vector<LatencyRun> runs;
  const cli::ProgressBar progress = cli::progress_bar("running", flags.show_progress);
  Hardware before;
  for (int32_t i = 0; i <= flags.num_iters; ++i) {  // the first is a warm-up
    struct Variant {
      PhaseTimes LatencyTimes::*phases;
      std::vector<GenerationRequest> requests;
    };
    std::vector<Variant> variants(3);
    variants[0] = {&LatencyTimes::plain, make_batch(flags, model, rng)};
    variants[1] = {&LatencyTimes::adapted, with_adapters(model, variants[0].requests)};
    variants[2].phases = &LatencyTimes::constrained;
    QUIRE_ASSIGN_OR_RETURN(variants[2].requests, with_schema(flags, model, variants[0].requests));
    // In turn before and after the run without, so that a drift favours neither.
    if (i % 2 == 0) std::reverse(variants.begin(), variants.end());
    LatencyTimes times;
    for (Variant& variant : variants) {
      if (variant.requests.empty()) continue;
      QUIRE_ASSIGN_OR_RETURN(times.*variant.phases,
                             run_phases(flags, model, std::move(variant.requests)));
    }
    QUIRE_ASSIGN_OR_RETURN(const Hardware after, probe_ceilings(flags.engine, model));
    if (i > 0) {
      QUIRE_ASSIGN_OR_RETURN(Bound bound, Bound::create(model, mean_ceilings(before, after)));
      runs.push_back({times, std::move(bound)});
    }
    before = after;
    if (progress) progress(i + 1, flags.num_iters + 1);
  }
  return runs;
}

// `what` says how the requests differ from those of the runs without.
void print_beside(const std::string& what, const std::vector<LatencyRun>& runs,
                  PhaseTimes LatencyTimes::*times) {
  const auto speed = [&](double PhaseTimes::*phase) {
    return median_of(runs, [&](const LatencyRun& run) {
      const double with = run.*times.*phase;
      return with > 0 ? run.plain.*phase / with : 0;
    });
  };
  const auto ms = [&](double PhaseTimes::*phase) {
    return 1e3 * median_of(runs, [&](const LatencyRun& run) { return run.*times.*phase; });
  };
  fmt::print(
      "{}: prefill {:.1f} ms, {:.3f}x the speed without; decode {:.2f} ms a step, {:.3f}x the "
      "speed without (medians of paired runs)\n",
      what, ms(&PhaseTimes::prefill_s), speed(&PhaseTimes::prefill_s), ms(&PhaseTimes::decode_s),
      speed(&PhaseTimes::decode_s));
}

Status run_latency(EngineBenchFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const RunningModel model, start_for_bench(flags));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<LatencyRun> runs, measure_latency(flags, model));
  const Bound& bound = runs.back().bound;
  print_machine(model, bound);
  const int32_t batch = flags.batch_size;
  const int32_t context = flags.input_len + flags.output_len / 2;
  const double prefill = median_of(runs, [](const LatencyRun& run) { return run.plain.prefill_s; });
  const double decode = median_of(runs, [](const LatencyRun& run) { return run.plain.decode_s; });
  const double prefill_share = median_of(runs, [&](const LatencyRun& run) {
    return run.bound.prefill(batch, flags.input_len).bound_us * 1e-6 / run.plain.prefill_s;
  });
  const double decode_share = median_of(runs, [&](const LatencyRun& run) {
    return run.bound.decode(batch, context).bound_us * 1e-6 / run.plain.decode_s;
  });
  const double prefill_flop_per_s = bound.prefill(batch, flags.input_len).flops / prefill;
  fmt::print(
      "prefill  {} x {} tokens: {:.1f} ms, {:.1f} tokens/s, {:.0f} GFLOP/s ({:.0f} % of the peak), "
      "{:.0f} % of the bound\n",
      batch, flags.input_len, prefill * 1e3, batch * flags.input_len / prefill,
      prefill_flop_per_s * 1e-9, 100 * prefill_flop_per_s / bound.peak_flops(),
      100 * prefill_share);
  if (model.adapters != nullptr) {
    print_beside(fmt::format("adapters {} among {} requests", flags.engine.lora.modules.size(),
                             flags.batch_size),
                 runs, &LatencyTimes::adapted);
  }
  if (!flags.json_schema.empty()) print_beside("schema  ", runs, &LatencyTimes::constrained);
  // The step of the prompt has brought the only token.
  if (flags.output_len < 2) {
    explain_share(prefill_share);
    return {};
  }
  fmt::print(
      "decode   {} x {} tokens: {:.2f} ms a step, {:.1f} tokens/s, {:.1f} GB/s, {:.0f} % of the "
      "bound\n",
      batch, flags.output_len, decode * 1e3, batch / decode,
      bound.decode(batch, context).read_bytes / decode * 1e-9, 100 * decode_share);
  explain_share(std::max(prefill_share, decode_share));
  return {};
}

Status run_throughput(EngineBenchFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const RunningModel model, start_for_bench(flags));
  QUIRE_ASSIGN_OR_RETURN(const Hardware ceilings, probe_ceilings(flags.engine, model));
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::create(model, ceilings));
  print_machine(model, bound);
  std::mt19937_64 rng(flags.seed);
  std::vector<GenerationRequest> requests;
  for (int32_t r = 0; r < flags.num_prompts; ++r) {
    requests.push_back(random_request(rng, model.engine->model_info().vocab_size, flags.input_len,
                                      flags.output_len, model.engine->clock()));
  }
  QUIRE_ASSIGN_OR_RETURN(const BatchTiming timing,
                         run_batch(*model.engine, std::move(requests),
                                   cli::progress_bar("running", flags.show_progress)));
  const double output_tokens = static_cast<double>(flags.num_prompts) * flags.output_len;
  const double input_tokens = static_cast<double>(flags.num_prompts) * flags.input_len;
  const int32_t batch = std::min(flags.num_prompts, flags.engine.engine.scheduler.max_num_seqs);
  const double num_decodes = static_cast<double>(flags.output_len - 1) * flags.num_prompts / batch;
  const double bound_us =
      bound.prefill(flags.num_prompts, flags.input_len).bound_us +
      num_decodes * bound.decode(batch, flags.input_len + flags.output_len / 2).bound_us;
  fmt::print(
      "{} requests of {} + {} tokens in {:.2f} s: {:.1f} output tokens/s, {:.1f} tokens/s, {:.0f} "
      "% of the bound\n",
      flags.num_prompts, flags.input_len, flags.output_len, timing.total_s,
      output_tokens / timing.total_s, (input_tokens + output_tokens) / timing.total_s,
      100 * bound_us * 1e-6 / timing.total_s);
  // The engine answers between steps, so that the last step is counted afterwards.
  (void)model.engine->recent_steps();
  print_step_use(step_use(model.engine->stats()), timing.total_s);
  explain_share(bound_us * 1e-6 / timing.total_s);
  return {};
}

CLI::App& add_common(CLI::App& bench, const char* name, const char* help, EngineBenchFlags& flags) {
  CLI::App& verb = *bench.add_subcommand(name, help);
  cli::add_model_argument(verb, flags.engine);
  verb.add_option(
      "--shape", flags.engine.shape,
      "Random weights in a named shape, such as llama-3.2-1b, or in that of a config.json");
  verb.add_option("--input-len", flags.input_len, "Prompt tokens")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--output-len", flags.output_len, "Output tokens")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--seed", flags.seed, "Seed of the prompts")->capture_default_str();
  cli::add_progress_flag(verb, flags.show_progress);
  cli::add_engine_flags(verb, flags.engine);
  return verb;
}

}  // namespace

void add_latency(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<EngineBenchFlags>();
  CLI::App& verb = add_common(bench, "latency",
                              "Prefill and decode speed of one batch (median of runs)", *flags);
  verb.add_option("--batch-size", flags->batch_size, "Requests")
      ->check(cli::at_least(1))
      ->capture_default_str();
  cli::add_lora_paths_flag(verb, flags->engine.lora);
  verb.add_option(
      "--json-schema", flags->json_schema,
      "A JSON Schema or a file with one. Measures with and without: answers are JSON of "
      "it, and it lets them have --output-len tokens");
  verb.add_option("--num-iters", flags->num_iters, "Runs after the warm-up")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.callback([flags, &exit_code] {
    const std::optional<int> ended = prepare(*flags);
    exit_code = ended ? *ended : cli::report(run_latency(*flags));
  });
}

void add_throughput(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<EngineBenchFlags>();
  CLI::App& verb = add_common(bench, "throughput",
                              "Tokens per second of many requests submitted at once", *flags);
  verb.add_option("--num-prompts", flags->num_prompts, "Requests")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.callback([flags, &exit_code] {
    const std::optional<int> ended = prepare(*flags);
    exit_code = ended ? *ended : cli::report(run_throughput(*flags));
  });
}

}  // namespace quire::bench
