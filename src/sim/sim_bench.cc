// This program measures the speed of the simulator: a saturated replica, and a fleet for an hour.
//
//   ninja -C build/release quire_sim_bench
//   build/release/src/sim/quire_sim_bench replica        requests/s and tokens/s on one core
//   build/release/src/sim/quire_sim_bench replica conversation      one load of these alone
//   build/release/src/sim/quire_sim_bench fleet 2        1,000 replicas, one hour, on 2 threads
//   build/release/src/sim/quire_sim_bench trace FILE 4 10     a trace on 4 replicas, at 10/s if it
//                                                       has only lengths; or a ServeGen folder
//
// It measures wall-clock time, so run it on an idle machine.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "sim/fleet/block_merging.h"
#include "sim/fleet/deployment.h"
#include "sim/report/summary.h"
#include "sim/workload/servegen.h"
#include "sim/workload/synthetic.h"
#include "sim/workload/trace.h"

namespace quire::sim {
namespace {

// This is Llama-3.1-8B.
constexpr std::string_view kModel = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
  "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
  "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})";

FleetSpec make_fleet(int32_t num_replicas, int32_t num_threads, Routing routing) {
  PoolOptions pool;
  pool.model = parse_model_shape(kModel).value();
  pool.hardware = find_hardware("h100-sxm").value();
  pool.num_replicas = num_replicas;
  pool.engine.scheduler.max_model_len = 16384;
  pool.engine.scheduler.max_num_seqs = 256;
  pool.engine.scheduler.max_num_batched_tokens = 8192;
  pool.engine.scheduler.max_num_queued_reqs = 1 << 24;
  pool.engine.scheduler.max_num_queued_tokens = int64_t{1} << 40;
  FleetSpec spec;
  spec.pools.push_back(make_pool(pool).value());
  spec.router.routing = routing;
  spec.num_threads = num_threads;
  spec.slice_ns = 30'000'000'000;
  return spec;
}

void report(const char* name, const Workload& workload, const FleetSpec& spec) {
  const auto begin = std::chrono::steady_clock::now();
  const RunResult result = run(workload, spec).value();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Summary s = summarize(spec, result, {});
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto steps = static_cast<double>(s.counters.num_steps);
  std::printf(
      "%-26s %9ld requests %12ld output tokens %11.0f steps in %7.2f s: %9.0f requests/s, "
      "%6.2f M output tokens/s, %6.2f M tokens/s, %5.2f us/step, busy %3.0f %%, virtual "
      "%.0f s, %.2f GB\n",
      name, static_cast<long>(s.num_completed), static_cast<long>(s.output_tokens), steps, seconds,
      static_cast<double>(s.num_completed) / seconds,
      static_cast<double>(s.output_tokens) / seconds * 1e-6,
      static_cast<double>(s.input_tokens + s.output_tokens) / seconds * 1e-6, seconds / steps * 1e6,
      100 * s.busy_share, s.duration_s, static_cast<double>(usage.ru_maxrss) * 1024e-9);
  std::fflush(stdout);
}

// Runs all loads, or the one with this name; returns false if there is none.
bool bench_replica(std::string_view only) {
  struct Case {
    const char* name;
    const char* input;
    const char* output;
    int64_t num_requests;
  };
  bool found = false;
  for (const Case& c : {Case{"512 in, 128 out", "512", "128", 100'000},
                        Case{"1024 in, 128 out", "1024", "128", 60'000},
                        Case{"128 in, 512 out", "128", "512", 40'000},
                        Case{"conversation", "lognormal:1155:1109", "lognormal:211:163", 50'000}}) {
    if (!only.empty() && only != c.name) continue;
    found = true;
    SyntheticOptions options;
    options.num_requests = c.num_requests;
    options.rate = RateProfile::parse("inf", "rate").value();
    options.input = LengthDistribution::parse(c.input, "input").value();
    options.output = LengthDistribution::parse(c.output, "output").value();
    options.max_model_len = 16384;
    report(c.name, make_synthetic(options).value(), make_fleet(1, 1, Routing::kRoundRobin));
  }
  return found;
}

// Requests have the mean lengths of the Azure conversation trace of 2023 (1,155 in, 211 out).
void bench_fleet(int32_t num_threads, int32_t num_replicas, double rate_per_replica,
                 Routing routing) {
  SyntheticOptions options;
  options.num_requests = int64_t{1} << 30;
  options.duration_s = 3600;
  options.rate = RateProfile::constant(rate_per_replica * num_replicas);
  options.input = LengthDistribution::parse("lognormal:1155:1109", "input").value();
  options.output = LengthDistribution::parse("lognormal:211:163", "output").value();
  report(to_string(routing).data(), make_synthetic(options).value(),
         make_fleet(num_replicas, num_threads, routing));
}

int bench_trace(const char* file, int32_t num_replicas, double rate) {
  TraceOptions options;
  options.lengths_at = [rate](int64_t i) {
    return static_cast<int64_t>(static_cast<double>(i) * 1e9 / rate);
  };
  const Result<Workload> workload =
      std::filesystem::is_directory(file) ? read_servegen(file, {}) : read_trace(file, options);
  if (!workload.ok()) {
    std::fprintf(stderr, "%s\n", workload.status().message().c_str());
    return 1;
  }
  FleetSpec spec = make_fleet(num_replicas, 1, Routing::kLeastRequests);
  spec.pools[0].replica.engine.scheduler.max_model_len = 131072;
  merge_blocks(*workload, spec);
  report("trace", *workload, spec);
  return 0;
}

}  // namespace
}  // namespace quire::sim

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "replica";
  if (what == "replica" && quire::sim::bench_replica(argc > 2 ? argv[2] : "")) return 0;
  if (what == "trace" && argc > 2) {
    return quire::sim::bench_trace(argv[2], argc > 3 ? std::atoi(argv[3]) : 1,
                                   argc > 4 ? std::atof(argv[4]) : 1.0);
  }
  const int num_threads = argc > 2 ? std::atoi(argv[2]) : 1;
  const int num_replicas = argc > 3 ? std::atoi(argv[3]) : 1000;
  const double rate = argc > 4 ? std::atof(argv[4]) : 3.0;
  const auto routing = quire::parse_routing(argc > 5 ? argv[5] : "round-robin");
  if (what != "fleet" || !routing.ok()) {
    std::fprintf(stderr,
                 "usage: %s replica [LOAD] | fleet [THREADS [REPLICAS [RATE [ROUTING]]]] | "
                 "trace FILE [REPLICAS [RATE]]\n",
                 argv[0]);
    return 2;
  }
  quire::sim::bench_fleet(num_threads, num_replicas, rate, *routing);
  return 0;
}
