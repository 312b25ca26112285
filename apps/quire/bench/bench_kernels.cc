#include <fmt/format.h>

#include "base/thread_team.h"
#include "device/cuda_device.h"
#include "device/isa.h"
#include "kernels/cuda_ops.h"
#include "kernels/gpu_bench.h"
#include "kernels/kernels_bench.h"
#include "quire/bench/commands.h"
#include "quire/commands.h"

namespace quire::bench {
namespace {

struct KernelFlags {
  KernelBenchOptions options;
  std::string device = "cpu";
  bool deterministic = true;
  std::string isa = "auto";
  int32_t num_threads = 0;
};

void print_header() {
  fmt::print("{:<48} {:>10} {:>8} {:>9} {:>10} {:>5}\n", "kernel", "us", "GB/s", "GFLOP/s",
             "bound us", "%");
}
void print_row(const KernelBenchRow& row) {
  fmt::print("{:<48} {:>10.1f} {:>8.1f} {:>9.0f} {:>10.1f} {:>5.0f}\n", row.name, row.us,
             row.gb_per_s, row.gflop_per_s, row.bound_us, row.percent);
  std::fflush(stdout);
}

Status run_gpu_kernels(const KernelFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, open_cuda_device({}, cuda_ops()));
  const DeviceInfo info = device->info();
  fmt::print("{}, {} SMs, {}; bounds by the limits measured now\n", info.name, info.gpu.num_sms,
             flags.deterministic ? "deterministic" : "not deterministic");
  print_header();
  return run_gpu_kernel_bench(
             *device, {.filter = flags.options.filter, .deterministic = flags.deterministic},
             print_row)
      .status();
}

Status run_kernels(const KernelFlags& flags) {
  if (flags.device == "cuda") return run_gpu_kernels(flags);
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(flags.isa));
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, ThreadTeam::create({.num_threads = flags.num_threads}));
  HostStream stream(team, isa);
  const HardwarePeaks peaks = probe_peaks(stream);
  fmt::print(
      "{} threads, {}: reads {:.1f} GB/s, {:.0f} GFLOP/s float32, {:.0f} GFLOP/s bfloat16, "
      "{:.0f} GOP/s int8 (measured now)\n",
      team.size(), to_string(isa), peaks.read_gb_per_s, peaks.f32_gflop_per_s,
      peaks.bf16_gflop_per_s, peaks.int8_gop_per_s);
  print_header();
  run_kernel_bench(stream, flags.options, print_row);
  return {};
}

}  // namespace

void add_kernels(CLI::App& bench, int& exit_code) {
  CLI::App& verb =
      *bench.add_subcommand("kernels", "Each kernel at the shapes of real models, with its bound");
  auto flags = std::make_shared<KernelFlags>();
  verb.add_option("--filter", flags->options.filter, "Only kernels whose name contains this");
  verb.add_option("--rows", flags->options.rows,
                  "Rows of activations in products, such as 1,2,3 (decode batches and prompts)")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  verb.add_option("--device", flags->device, "cpu, or cuda: a GPU's kernels")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  verb.add_flag("--deterministic,!--no-deterministic", flags->deterministic,
                "GPU: kernels whose bits do not depend on the batch (on)");
  verb.add_option("--isa", flags->isa,
                  "auto (the best here), portable, avx2, avx512 or amx; avx2-core, avx512-core, "
                  "avx512-vnni: without later additions")
      ->capture_default_str();
  verb.add_option("--threads", flags->num_threads, "Compute threads; 0: one per physical core")
      ->check(CLI::Range(0, 1024));
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_kernels(*flags)); });
}

}  // namespace quire::bench
