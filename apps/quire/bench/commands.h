#pragma once

#include <CLI/CLI.hpp>

namespace quire::bench {

void add_serve(CLI::App& bench, int& exit_code);
void add_latency(CLI::App& bench, int& exit_code);
void add_throughput(CLI::App& bench, int& exit_code);
void add_ablation(CLI::App& bench, int& exit_code);
void add_contention(CLI::App& bench, int& exit_code);
void add_kernels(CLI::App& bench, int& exit_code);
void add_speculation(CLI::App& bench, int& exit_code);
void add_grammar(CLI::App& bench, int& exit_code);

}  // namespace quire::bench
