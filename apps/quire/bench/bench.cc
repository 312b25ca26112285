#include "quire/bench/commands.h"
#include "quire/commands.h"

namespace quire::cli {

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "bench", "Measure speed, and show each figure's share of the hardware's limit");
  verb.require_subcommand(1);
  bench::add_latency(verb, exit_code);
  bench::add_throughput(verb, exit_code);
  bench::add_serve(verb, exit_code);
  bench::add_ablation(verb, exit_code);
  bench::add_contention(verb, exit_code);
  bench::add_kernels(verb, exit_code);
  bench::add_speculation(verb, exit_code);
  bench::add_grammar(verb, exit_code);
}

}  // namespace quire::cli
