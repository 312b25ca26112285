#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>

#include "quire/bench/commands.h"
#include "quire/bench/load_generator.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"
#include "sim/workload/trace.h"

namespace quire::bench {
namespace {

namespace json = boost::json;

struct ServeBenchFlags {
  LoadOptions load;
  std::string backend = "openai";
  std::optional<int32_t> num_requests;
  std::string trace;
  std::string trace_format;
  std::string save_result;
  std::string save_trace;
  std::vector<std::string> goodput;  // "ttft:200"
  bool show_progress = false;
  bool as_json = false;
};

Result<GoodputLimits> parse_goodput(const std::vector<std::string>& terms) {
  GoodputLimits limits;
  for (const std::string& term : terms) {
    const size_t colon = term.find(':');
    const std::string name = term.substr(0, colon);
    char* end = nullptr;
    const double ms = colon == std::string::npos ? 0 : std::strtod(term.c_str() + colon + 1, &end);
    std::optional<double>* limit = name == "ttft"   ? &limits.ttft_ms
                                   : name == "tpot" ? &limits.tpot_ms
                                   : name == "e2el" ? &limits.e2el_ms
                                                    : nullptr;
    if (limit == nullptr || end == nullptr || *end != '\0' || ms <= 0) {
      return invalid_argument("--goodput: expected ttft:MS, tpot:MS or e2el:MS, got '{}'", term);
    }
    *limit = ms;
  }
  return limits;
}

void print_distribution(const char* name, const Distribution& d) {
  fmt::print("{:<10} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f}\n", name, d.mean, d.median, d.p90,
             d.p99);
}

void print_summary(const LoadResult& result, const LoadSummary& s) {
  fmt::print(
      "requests             {} completed, {} failed in {:.2f} s (at most {} at the same time)\n",
      s.completed, s.failed, result.duration_s, result.max_concurrent_requests);
  fmt::print("tokens               {} in, {} out\n", s.input_tokens, s.output_tokens);
  fmt::print(
      "throughput           {:.2f} requests/s, {:.1f} output tokens/s (peak {:.0f}), {:.1f} "
      "tokens/s\n",
      s.request_throughput, s.output_throughput, s.peak_output_tokens_per_s,
      s.total_token_throughput);
  if (const auto share = result.steps ? bound_share(*result.steps) : std::nullopt) {
    fmt::print("share of the bound   {:.0f} % of the steps' time\n", 100 * *share);
    explain_share(*share);
  }
  if (result.steps) print_step_use(*result.steps, result.duration_s);
  if (s.request_goodput) fmt::print("goodput              {:.2f} requests/s\n", *s.request_goodput);
  fmt::print("{:<10} {:>10} {:>10} {:>10} {:>10}\n", "ms", "mean", "median", "p90", "p99");
  print_distribution("TTFT", s.ttft_ms);
  print_distribution("TPOT", s.tpot_ms);
  print_distribution("ITL", s.itl_ms);
  print_distribution("E2EL", s.e2el_ms);
  const auto failed = std::find_if(result.requests.begin(), result.requests.end(),
                                   [](const RequestRecord& r) { return !r.error.empty(); });
  if (failed != result.requests.end()) fmt::print("first error          {}\n", failed->error);
}

void put_distribution(json::object& out, const std::string& name, const Distribution& d) {
  out["mean_" + name + "_ms"] = d.mean;
  out["median_" + name + "_ms"] = d.median;
  out["std_" + name + "_ms"] = d.std;
  out["p99_" + name + "_ms"] = d.p99;
}

json::object to_json(const LoadResult& result, const LoadSummary& s) {
  json::object out{{"duration", result.duration_s},
                   {"completed", s.completed},
                   {"failed", s.failed},
                   {"total_input_tokens", s.input_tokens},
                   {"total_output_tokens", s.output_tokens},
                   {"request_throughput", s.request_throughput},
                   {"output_throughput", s.output_throughput},
                   {"total_token_throughput", s.total_token_throughput},
                   {"max_output_tokens_per_s", s.peak_output_tokens_per_s},
                   {"max_concurrent_requests", result.max_concurrent_requests}};
  if (result.steps) {
    if (const auto share = bound_share(*result.steps)) out["bound_share"] = *share;
    out["executor_share"] = executor_share(*result.steps, result.duration_s);
  }
  if (s.request_goodput) out["request_goodput"] = *s.request_goodput;
  put_distribution(out, "ttft", s.ttft_ms);
  put_distribution(out, "tpot", s.tpot_ms);
  put_distribution(out, "itl", s.itl_ms);
  put_distribution(out, "e2el", s.e2el_ms);
  json::array input_lens, output_lens, ttfts, itls, start_times, errors;
  for (const RequestRecord& r : result.requests) {
    input_lens.emplace_back(r.input_tokens);
    output_lens.emplace_back(r.output_tokens);
    ttfts.emplace_back(r.ttft_s);
    itls.push_back(json::value_from(r.itl_s));
    start_times.emplace_back(r.start_s);
    errors.emplace_back(r.error);
  }
  out["input_lens"] = std::move(input_lens);
  out["output_lens"] = std::move(output_lens);
  out["ttfts"] = std::move(ttfts);
  out["itls"] = std::move(itls);
  out["start_times"] = std::move(start_times);
  out["errors"] = std::move(errors);
  return out;
}

Status read_load_trace(ServeBenchFlags& flags) {
  sim::TraceOptions options;
  if (!flags.trace_format.empty()) {
    QUIRE_ASSIGN_OR_RETURN(options.format, sim::parse_trace_format(flags.trace_format));
  }
  if (flags.num_requests) options.max_requests = *flags.num_requests;
  QUIRE_ASSIGN_OR_RETURN(flags.load.trace, sim::read_trace(flags.trace, options));
  return {};
}

Status run_serve_bench(ServeBenchFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const GoodputLimits limits, parse_goodput(flags.goodput));
  if (!flags.trace.empty()) QUIRE_RETURN_IF_ERROR(read_load_trace(flags));
  flags.load.num_requests = flags.num_requests.value_or(flags.load.num_requests);
  flags.load.chat = flags.backend == "openai-chat";
  flags.load.progress = cli::progress_bar("running", flags.show_progress);
  QUIRE_ASSIGN_OR_RETURN(const LoadResult result, run_load(flags.load));
  const LoadSummary summary = summarize(result, limits);
  if (flags.as_json) {
    cli::print_json(to_json(result, summary));
  } else {
    print_summary(result, summary);
  }
  if (!flags.save_result.empty()) {
    std::ofstream file(flags.save_result);
    file << json::serialize(to_json(result, summary)) << "\n";
    if (!file.flush()) return unavailable("--save-result: cannot write '{}'", flags.save_result);
  }
  if (!flags.save_trace.empty()) {
    std::ofstream file(flags.save_trace);
    file << sim::write_trace(result.sent);
    if (!file.flush()) return unavailable("--save-trace: cannot write '{}'", flags.save_trace);
  }
  if (summary.completed == 0) return unavailable("no request succeeded");
  return {};
}

// Adds the flags that shape random prompts and their arrivals.
void add_random_load_flags(CLI::App& verb, LoadOptions& load) {
  verb.add_option("--num-warmups", load.num_warmups,
                  "Number of warm-up requests, which are not counted")
      ->check(cli::at_least(0))
      ->capture_default_str();
  verb.add_option("--random-input-len", load.input_len, "Mean number of prompt tokens")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--random-output-len", load.output_len, "Mean number of output tokens")
      ->check(cli::at_least(1))
      ->capture_default_str();
  verb.add_option("--random-range-ratio", load.range_ratio,
                  "Largest random deviation of the lengths, as a share of them")
      ->check(cli::between(0.0, 1.0))
      ->capture_default_str();
  verb.add_option("--random-prefix-len", load.prefix_len,
                  "Number of tokens of a prefix that all prompts share")
      ->check(cli::at_least(0))
      ->capture_default_str();
  verb.add_option("--request-rate", load.request_rate,
                  "Arrival rate in requests per second; 0 or inf: all at once")
      ->check(cli::between(0.0, std::numeric_limits<double>::infinity()))
      ->capture_default_str();
  verb.add_option("--burstiness", load.burstiness,
                  "Shape of the arrivals: 1 gives Poisson arrivals; smaller values give bursts")
      ->check(cli::above_zero())
      ->capture_default_str();
  verb.add_option("--max-concurrency", load.max_concurrency,
                  "Largest number of requests at the same time; 0: no limit")
      ->check(cli::at_least(0))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& bench, int& exit_code) {
  CLI::App& verb = *bench.add_subcommand(
      "serve", "Measure a running server with streaming requests (docs/metrics.md)");
  auto flags = std::make_shared<ServeBenchFlags>();
  LoadOptions& load = flags->load;
  verb.add_option(
          "--backend", flags->backend,
          "Route of the requests: openai (/v1/completions) or openai-chat (/v1/chat/completions)")
      ->check(cli::one_of({"openai", "openai-chat"}))
      ->capture_default_str();
  verb.add_option("--host", load.host, "Name or IP address of the server")->capture_default_str();
  verb.add_option("--port", load.port, "TCP port of the server")->capture_default_str();
  verb.add_option("--api-key", load.api_key, "API key of the server");
  verb.add_option("--model", load.model, "Name of the model; default: the first of /v1/models");
  verb.add_option("--num-prompts", flags->num_requests,
                  "Number of requests; default: 1000, or the whole trace")
      ->check(cli::at_least(1));
  verb.add_option("--trace", flags->trace,
                  "Send the requests of this trace (quire simulate --save-trace, Azure, Mooncake "
                  "…) instead of random prompts");
  verb.add_option("--trace-format", flags->trace_format,
                  "Format of the trace, as in quire simulate");
  add_random_load_flags(verb, load);
  verb.add_option("--goodput", flags->goodput,
                  "Limits in milliseconds that a good request meets, for example ttft:500 tpot:50; "
                  "the goodput counts only good requests")
      ->delimiter(',');
  verb.add_flag("--ignore-eos,!--no-ignore-eos", load.ignore_eos,
                "Generate the full length even after an end token (default: on)");
  verb.add_option("--seed", load.seed, "Seed of random lengths, prompts and arrivals")
      ->capture_default_str();
  cli::add_progress_flag(verb, flags->show_progress);
  cli::add_json_flag(verb, flags->as_json);
  verb.add_option("--save-result", flags->save_result, "Write all figures as JSON to this file");
  verb.add_option(
      "--save-trace", flags->save_trace,
      "Write the requests that were sent, and their times, as a trace for quire simulate --trace");
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_serve_bench(*flags)); });
}

}  // namespace quire::bench
