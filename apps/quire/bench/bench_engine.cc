// `quire bench latency` and `quire bench throughput` measure the engine without HTTP.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
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
#include "quire/json_output.h"
#include "quire/launcher.h"
#include "quire/lora_flags.h"

namespace quire::bench {
namespace {

namespace json = boost::json;

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
  bool as_json = false;
};

// Returns an exit code in a process whose rank is above 0, once that rank's work has ended.
std::optional<int> prepare(EngineBenchFlags& flags) {
  if (flags.engine.engine.scheduler.max_model_len == 0)
    flags.engine.engine.scheduler.max_model_len = flags.input_len + flags.output_len;
  return cli::run_as_rank(flags.engine);
}

Result<RunningModel> start_for_bench(EngineBenchFlags& flags) {
  flags.engine.on_progress = cli::loading_bar();
  flags.engine.engine.log_interval_us = 0;
  flags.engine.engine.prepare_at_start = true;
  // Prompts are random, and no part of them or of the answers may come from the prefix cache.
  flags.engine.engine.kv.enable_prefix_caching = false;
  if (flags.engine.speculative_config.empty()) flags.engine.speculative_config = kNoDrafts;
  return start_model(flags.engine);
}

void print_machine(const RunningModel& model, const Bound& bound) {
  fmt::print("model    {} ({} weights, {} KV cache)\n", model.bundle.name,
             to_string(model.plan.dtype), to_string(model.plan.kv_dtype));
  fmt::print("machine  reads {:.1f} GB/s, {} multiply-adds {:.0f} GFLOP/s (just measured)\n",
             bound.read_bytes_per_s() * 1e-9, to_string(bound.math()), bound.peak_flops() * 1e-9);
}

json::object machine_json(const EngineBenchFlags& flags, const RunningModel& model,
                          const Bound& bound) {
  return {{"model", model.bundle.name},
          {"dtype", to_string(model.plan.dtype)},
          {"kv_cache_dtype", to_string(model.plan.kv_dtype)},
          {"read_gb_per_s", bound.read_bytes_per_s() * 1e-9},
          {"math", to_string(bound.math())},
          {"peak_gflop_per_s", bound.peak_flops() * 1e-9},
          {"input_len", flags.input_len},
          {"output_len", flags.output_len}};
}

struct PhaseTimes {
  double prefill_s = 0, decode_s = 0;  // decode_s is the time of one step; 0: not measured
};

struct LatencyTimes {
  PhaseTimes plain, adapted, constrained;  // of the same requests, run in the three ways
};

struct LatencyRun : LatencyTimes {
  Bound bound;
};

std::vector<GenerationRequest> make_batch(const EngineBenchFlags& flags, const RunningModel& model,
                                          std::mt19937_64& rng) {
  std::vector<GenerationRequest> requests;
  requests.reserve(static_cast<size_t>(flags.batch_size));
  for (int32_t r = 0; r < flags.batch_size; ++r) {
    requests.push_back(random_request(rng, model.engine->model_info().vocab_size, flags.input_len,
                                      flags.output_len, model.engine->clock()));
  }
  return requests;
}

// Returns the same requests with the adapters assigned in turn; empty when no adapter is loaded.
std::vector<GenerationRequest> with_adapters(const RunningModel& model,
                                             std::vector<GenerationRequest> requests) {
  if (model.adapters == nullptr) return {};
  const std::vector<LoadedAdapterInfo> adapters = model.adapters->list();
  for (size_t r = 0; r < requests.size(); ++r)
    requests[r].adapter = adapters[r % adapters.size()].adapter;
  return requests;
}

// Returns the same requests, whose answers must follow --json-schema; empty without that flag.
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
        "--json-schema: expected a schema that allows answers of {} tokens, got one whose answers "
        "ended after {} of {} tokens in all",
        flags.output_len, timing.num_tokens, num_tokens);
  }
  return PhaseTimes{timing.first_token_s,
                    (timing.total_s - timing.first_token_s) / std::max(1, flags.output_len - 1)};
}

double median_of(const std::vector<LatencyRun>& runs,
                 const std::function<double(const LatencyRun&)>& value) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const LatencyRun& run : runs) values.push_back(value(run));
  return median(std::move(values));
}

// Every run has its own ceilings, the mean of what is probed before and after it: the speed of
// memory drifts on shared machines, so a share is only right against the limits of the same minute.
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
    // The plain run comes first and last in turn, so that a drift of the machine favours no
    // variant.
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

// The times are medians over all runs. The speeds are the medians of each run's ratio to the plain
// run beside it.
struct Beside {
  double prefill_ms = 0, prefill_speed = 0;
  double step_ms = 0, decode_speed = 0;
};

Beside beside(const std::vector<LatencyRun>& runs, PhaseTimes LatencyTimes::*times) {
  const auto speed = [&](double PhaseTimes::*phase) {
    return median_of(runs, [&](const LatencyRun& run) {
      const double with = run.*times.*phase;
      return with > 0 ? run.plain.*phase / with : 0;
    });
  };
  const auto ms = [&](double PhaseTimes::*phase) {
    return 1e3 * median_of(runs, [&](const LatencyRun& run) { return run.*times.*phase; });
  };
  return {.prefill_ms = ms(&PhaseTimes::prefill_s),
          .prefill_speed = speed(&PhaseTimes::prefill_s),
          .step_ms = ms(&PhaseTimes::decode_s),
          .decode_speed = speed(&PhaseTimes::decode_s)};
}

// `what` names what the requests have that the plain run's do not: an adapter or a schema.
void print_beside(const std::string& what, const Beside& with) {
  fmt::print(
      "{}: prefill {:.1f} ms, {:.3f} times the plain speed; decode {:.2f} ms per step, {:.3f} "
      "times the plain speed (medians of paired runs)\n",
      what, with.prefill_ms, with.prefill_speed, with.step_ms, with.decode_speed);
}

json::object to_json(const Beside& with) {
  return {{"prefill_ms", with.prefill_ms},
          {"prefill_speed_ratio", with.prefill_speed},
          {"decode_step_ms", with.step_ms},
          {"decode_speed_ratio", with.decode_speed}};
}

// Medians over all runs.
struct LatencyFigures {
  double prefill_s = 0, prefill_share = 0, prefill_flop_per_s = 0;
  double decode_s = 0, decode_share = 0, decode_bytes_per_s = 0;  // of a step
  std::optional<Beside> adapted, constrained;
};

LatencyFigures latency_figures(const EngineBenchFlags& flags, const RunningModel& model,
                               const std::vector<LatencyRun>& runs) {
  const Bound& bound = runs.back().bound;
  const int32_t batch = flags.batch_size;
  const int32_t context = flags.input_len + flags.output_len / 2;
  LatencyFigures figures;
  figures.prefill_s = median_of(runs, [](const LatencyRun& run) { return run.plain.prefill_s; });
  figures.decode_s = median_of(runs, [](const LatencyRun& run) { return run.plain.decode_s; });
  figures.prefill_share = median_of(runs, [&](const LatencyRun& run) {
    return run.bound.prefill(batch, flags.input_len).bound_us * 1e-6 / run.plain.prefill_s;
  });
  figures.decode_share = median_of(runs, [&](const LatencyRun& run) {
    return run.bound.decode(batch, context).bound_us * 1e-6 / run.plain.decode_s;
  });
  figures.prefill_flop_per_s = bound.prefill(batch, flags.input_len).flops / figures.prefill_s;
  figures.decode_bytes_per_s = bound.decode(batch, context).read_bytes / figures.decode_s;
  if (model.adapters != nullptr) figures.adapted = beside(runs, &LatencyTimes::adapted);
  if (!flags.json_schema.empty()) figures.constrained = beside(runs, &LatencyTimes::constrained);
  return figures;
}

// The prefill step already samples the first token, so an answer of one token has no decode step.
bool decodes(const EngineBenchFlags& flags) { return flags.output_len > 1; }

void print_latency(const EngineBenchFlags& flags, const LatencyFigures& figures,
                   const Bound& bound) {
  const int32_t batch = flags.batch_size;
  fmt::print(
      "prefill  {} x {} tokens: {:.1f} ms, {:.1f} tokens/s, {:.0f} GFLOP/s ({:.0f} % of the peak), "
      "{:.0f} % of the bound\n",
      batch, flags.input_len, figures.prefill_s * 1e3, batch * flags.input_len / figures.prefill_s,
      figures.prefill_flop_per_s * 1e-9, 100 * figures.prefill_flop_per_s / bound.peak_flops(),
      100 * figures.prefill_share);
  if (figures.adapted) {
    print_beside(fmt::format("adapters {} among {} requests", flags.engine.lora.modules.size(),
                             flags.batch_size),
                 *figures.adapted);
  }
  if (figures.constrained) print_beside("schema  ", *figures.constrained);
  if (!decodes(flags)) {
    explain_share(figures.prefill_share);
    return;
  }
  fmt::print(
      "decode   {} x {} tokens: {:.2f} ms per step, {:.1f} tokens/s, {:.1f} GB/s, {:.0f} % of the "
      "bound\n",
      batch, flags.output_len, figures.decode_s * 1e3, batch / figures.decode_s,
      figures.decode_bytes_per_s * 1e-9, 100 * figures.decode_share);
  explain_share(std::max(figures.prefill_share, figures.decode_share));
}

json::object latency_json(const EngineBenchFlags& flags, const LatencyFigures& figures) {
  const int32_t batch = flags.batch_size;
  json::object out{
      {"batch_size", batch},
      {"num_iters", flags.num_iters},
      {"prefill_ms", figures.prefill_s * 1e3},
      {"prefill_tokens_per_s", batch * flags.input_len / figures.prefill_s},
      {"prefill_gflop_per_s", figures.prefill_flop_per_s * 1e-9},
      {"prefill_bound_share", figures.prefill_share},
  };
  if (decodes(flags)) {
    out["decode_step_ms"] = figures.decode_s * 1e3;
    out["decode_tokens_per_s"] = batch / figures.decode_s;
    out["decode_gb_per_s"] = figures.decode_bytes_per_s * 1e-9;
    out["decode_bound_share"] = figures.decode_share;
  }
  if (figures.adapted) out["with_adapters"] = to_json(*figures.adapted);
  if (figures.constrained) out["with_schema"] = to_json(*figures.constrained);
  return out;
}

Status run_latency(EngineBenchFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const RunningModel model, start_for_bench(flags));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<LatencyRun> runs, measure_latency(flags, model));
  const Bound& bound = runs.back().bound;
  const LatencyFigures figures = latency_figures(flags, model, runs);
  if (flags.as_json) {
    json::object out = machine_json(flags, model, bound);
    for (auto& [name, value] : latency_json(flags, figures)) out[name] = value;
    cli::print_json(std::move(out));
    return {};
  }
  print_machine(model, bound);
  print_latency(flags, figures, bound);
  return {};
}

// Returns the least time that the limits allow for all requests.
double throughput_bound_s(const EngineBenchFlags& flags, const Bound& bound) {
  const int32_t batch = std::min(flags.num_prompts, flags.engine.engine.scheduler.max_num_seqs);
  const double num_decodes = static_cast<double>(flags.output_len - 1) * flags.num_prompts / batch;
  return 1e-6 *
         (bound.prefill(flags.num_prompts, flags.input_len).bound_us +
          num_decodes * bound.decode(batch, flags.input_len + flags.output_len / 2).bound_us);
}

Status run_throughput(EngineBenchFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const RunningModel model, start_for_bench(flags));
  QUIRE_ASSIGN_OR_RETURN(const Hardware ceilings, probe_ceilings(flags.engine, model));
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::create(model, ceilings));
  if (!flags.as_json) print_machine(model, bound);
  std::mt19937_64 rng(flags.seed);
  std::vector<GenerationRequest> requests;
  requests.reserve(static_cast<size_t>(flags.num_prompts));
  for (int32_t r = 0; r < flags.num_prompts; ++r) {
    requests.push_back(random_request(rng, model.engine->model_info().vocab_size, flags.input_len,
                                      flags.output_len, model.engine->clock()));
  }
  QUIRE_ASSIGN_OR_RETURN(const BatchTiming timing,
                         run_batch(*model.engine, std::move(requests),
                                   cli::progress_bar("running", flags.show_progress)));
  const double output_tokens = static_cast<double>(flags.num_prompts) * flags.output_len;
  const double all_tokens =
      output_tokens + static_cast<double>(flags.num_prompts) * flags.input_len;
  const double share = throughput_bound_s(flags, bound) / timing.total_s;
  // The engine takes its recent steps out between two steps, so after this call the last step is
  // counted too.
  (void)model.engine->recent_steps();
  const StepUse use = step_use(model.engine->stats());
  if (flags.as_json) {
    json::object out = machine_json(flags, model, bound);
    out["num_prompts"] = flags.num_prompts;
    out["duration_s"] = timing.total_s;
    out["output_tokens_per_s"] = output_tokens / timing.total_s;
    out["tokens_per_s"] = all_tokens / timing.total_s;
    out["bound_share"] = share;
    out["steps"] = to_json(use, timing.total_s);
    cli::print_json(std::move(out));
    return {};
  }
  fmt::print(
      "{} requests of {} + {} tokens in {:.2f} s: {:.1f} output tokens/s, {:.1f} tokens/s, {:.0f} "
      "% of the bound\n",
      flags.num_prompts, flags.input_len, flags.output_len, timing.total_s,
      output_tokens / timing.total_s, all_tokens / timing.total_s, 100 * share);
  print_step_use(use, timing.total_s);
  explain_share(share);
  return {};
}

CLI::App& add_common(CLI::App& bench, const char* name, const char* help, EngineBenchFlags& flags) {
  CLI::App& verb = *bench.add_subcommand(name, help);
  cli::add_model_argument(verb, flags.engine);
  verb.add_option("--shape", flags.engine.shape,
                  "Use random weights instead of MODEL: in a named shape, such as llama-3.2-1b, or "
                  "in the shape of a config.json");
  verb.add_option("--input-len", flags.input_len, "Number of prompt tokens of each request")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--output-len", flags.output_len, "Number of output tokens of each request")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--seed", flags.seed, "Seed of the random prompts")->capture_default_str();
  cli::add_progress_flag(verb, flags.show_progress);
  cli::add_json_flag(verb, flags.as_json);
  cli::add_engine_flags(verb, flags.engine);
  return verb;
}

}  // namespace

void add_latency(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<EngineBenchFlags>();
  CLI::App& verb = add_common(
      bench, "latency",
      "Measure the prefill and decode speed of one batch (medians of several runs)", *flags);
  verb.add_option("--batch-size", flags->batch_size, "Number of requests")
      ->check(cli::at_least(1))
      ->capture_default_str();
  cli::add_lora_paths_flag(verb, flags->engine.lora);
  verb.add_option("--json-schema", flags->json_schema,
                  "JSON Schema, or a file with one, that allows answers of --output-len tokens; "
                  "measures with and without it");
  verb.add_option("--num-iters", flags->num_iters, "Number of runs after the warm-up")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.callback([flags, &exit_code] {
    const std::optional<int> ended = prepare(*flags);
    exit_code = ended ? *ended : cli::report(run_latency(*flags));
  });
}

void add_throughput(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<EngineBenchFlags>();
  CLI::App& verb = add_common(
      bench, "throughput",
      "Measure the tokens per second of many requests that are submitted at once", *flags);
  verb.add_option("--num-prompts", flags->num_prompts, "Number of requests")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.callback([flags, &exit_code] {
    const std::optional<int> ended = prepare(*flags);
    exit_code = ended ? *ended : cli::report(run_throughput(*flags));
  });
}

}  // namespace quire::bench
