// quire_kernels_bench [filter] [isa] [threads]
#include <fmt/format.h>

#include <cstdlib>

#include "device/isa.h"
#include "kernels/bench/kernels_bench.h"

int main(int argc, char** argv) {
  const auto isa = quire::parse_isa(argc > 2 ? argv[2] : "auto");
  if (!isa.ok()) {
    fmt::print(stderr, "{}\n", isa.status().message());
    return 1;
  }
  auto team = quire::ThreadTeam::create({.num_threads = argc > 3 ? std::atoi(argv[3]) : 0});
  if (!team.ok()) {
    fmt::print(stderr, "{}\n", team.status().message());
    return 1;
  }
  team->pin_caller();
  quire::HostStream stream(*team, *isa);
  fmt::print("isa {}, {} threads\n{:<48}{:>11}{:>9}{:>11}{:>11}{:>7}{:>11}{:>7}\n",
             quire::to_string(*isa), team->size(), "kernel", "us", "GB/s", "GFLOP/s", "bound us",
             "%", "best us", "best %");
  quire::run_kernel_bench(
      stream, {.filter = argc > 1 ? argv[1] : ""}, [](const quire::KernelBenchRow& row) {
        fmt::print("{:<48}{:>11.1f}{:>9.1f}{:>11.1f}{:>11.1f}{:>7.1f}{:>11.1f}{:>7.1f}\n", row.name,
                   row.us, row.gb_per_s, row.gflop_per_s, row.bound_us, row.percent, row.best_us,
                   row.best_percent);
        std::fflush(stdout);
      });
  return 0;
}
