#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "base/threads/thread_team.h"
#include "device/cuda_device.h"
#include "device/isa.h"
#include "kernels/bench/kernels_bench.h"
#include "kernels/cuda_ops.h"
#include "kernels/gpu_bench.h"
#include "quire/bench/commands.h"
#include "quire/bench/step_report.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/json_output.h"

namespace quire::bench {
namespace {

namespace json = boost::json;

struct KernelFlags {
  KernelBenchOptions options;
  std::string device = "cpu";
  bool deterministic = true;
  std::string isa = "auto";
  int32_t num_threads = 0;
  bool show_progress = false;
  bool as_json = false;
};

// KernelTable prints rows as they are measured, below `machine` and the names of the columns. As
// JSON it prints all of them at the end.
class KernelTable {
 public:
  KernelTable(std::string machine, const KernelFlags& flags)
      : machine_(std::move(machine)),
        filter_(flags.options.filter),
        as_json_(flags.as_json),
        // A table that is printed to a terminal shows the progress by itself.
        shows_progress_(flags.show_progress ||
                        (isatty(STDERR_FILENO) != 0 && isatty(STDOUT_FILENO) == 0)) {}

  // The ceilings are always probed first, even when the filter leaves them out. Their rows are held
  // back until the first row that the filter selects.
  void add(const KernelBenchRow& row) {
    held_.push_back(row);
    if (row.name.find(filter_) == std::string::npos && num_rows_ == 0) return;
    if (num_rows_ == 0 && !as_json_) {
      fmt::print("{}\n{:<48} {:>10} {:>8} {:>9} {:>10} {:>5}\n", machine_, "kernel", "us", "GB/s",
                 "GFLOP/s", "bound us", "%");
    }
    for (const KernelBenchRow& held : held_) print(held);
    held_.clear();
  }

  Status finish() const {
    if (num_rows_ == 0)
      return invalid_argument("--filter: no kernel's name contains '{}'", filter_);
    if (as_json_) {
      cli::print_json(json::object{{"machine", machine_}, {"kernels", rows_}});
    } else {
      explain_share(largest_share_);
    }
    return {};
  }

 private:
  void print(const KernelBenchRow& row) {
    ++num_rows_;
    if (as_json_) {
      rows_.push_back(json::object{{"kernel", row.name},
                                   {"us", row.us},
                                   {"gb_per_s", row.gb_per_s},
                                   {"gflop_per_s", row.gflop_per_s},
                                   {"bound_us", row.bound_us},
                                   {"bound_share", row.percent / 100}});
    } else {
      fmt::print("{:<48} {:>10.1f} {:>8.1f} {:>9.0f} {:>10.1f} {:>5.0f}\n", row.name, row.us,
                 row.gb_per_s, row.gflop_per_s, row.bound_us, row.percent);
      std::fflush(stdout);
    }
    if (shows_progress_) fmt::print(stderr, "{} kernels: {}\n", num_rows_, row.name);
    largest_share_ = std::max(largest_share_, row.percent / 100);
  }

  std::string machine_;
  std::string filter_;
  bool as_json_;
  bool shows_progress_;
  std::vector<KernelBenchRow> held_;
  json::array rows_;
  int32_t num_rows_ = 0;
  double largest_share_ = 0;
};

Status run_gpu_kernels(const KernelFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, open_cuda_device({}, cuda_ops()));
  const DeviceInfo info = device->info();
  KernelTable table(
      fmt::format("{}, {} SMs, {}; bounds by the limits just measured", info.name, info.gpu.num_sms,
                  flags.deterministic ? "deterministic" : "not deterministic"),
      flags);
  QUIRE_RETURN_IF_ERROR(
      run_gpu_kernel_bench(*device,
                           {.filter = flags.options.filter, .deterministic = flags.deterministic},
                           [&](const KernelBenchRow& row) { table.add(row); })
          .status());
  return table.finish();
}

Status run_kernels(const KernelFlags& flags) {
  if (flags.device == "cuda") return run_gpu_kernels(flags);
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(flags.isa));
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, ThreadTeam::create({.num_threads = flags.num_threads}));
  HostStream stream(team, isa);
  const HardwarePeaks peaks = probe_peaks(stream);
  KernelTable table(
      fmt::format("{} threads, {}: reads {:.1f} GB/s, {:.0f} GFLOP/s float32, {:.0f} GFLOP/s "
                  "bfloat16, {:.0f} GOP/s int8 (just measured)",
                  team.size(), to_string(isa), peaks.read_gb_per_s, peaks.f32_gflop_per_s,
                  peaks.bf16_gflop_per_s, peaks.int8_gop_per_s),
      flags);
  run_kernel_bench(stream, flags.options, [&](const KernelBenchRow& row) { table.add(row); });
  return table.finish();
}

}  // namespace

void add_kernels(CLI::App& bench, int& exit_code) {
  CLI::App& verb = *bench.add_subcommand(
      "kernels", "Measure each kernel at the shapes of real models, and show its bound");
  auto flags = std::make_shared<KernelFlags>();
  verb.add_option("--filter", flags->options.filter,
                  "Measure only kernels whose name contains this text");
  verb.add_option("--rows", flags->options.rows,
                  "Numbers of rows of activations in matrix products, such as 1,2,3 (decode "
                  "batches and prompts)")
      ->delimiter(',')
      ->check(cli::in_range(1, 65536));
  verb.add_option("--device", flags->device,
                  "Device whose kernels are measured: cpu, or cuda (a GPU)")
      ->check(cli::one_of({"cpu", "cuda"}))
      ->capture_default_str();
  verb.add_flag(
      "--deterministic,!--no-deterministic", flags->deterministic,
      "On a GPU: measure the kernels whose bits do not depend on the batch (default: on)");
  verb.add_option(
          "--isa", flags->isa,
          "Instruction set of the CPU kernels: auto (the best of this machine), portable, avx2, "
          "avx512 or amx; avx2-core, avx512-core and avx512-vnni leave out later additions to them")
      ->capture_default_str();
  verb.add_option("--threads", flags->num_threads,
                  "Number of compute threads; 0: one per physical core")
      ->check(cli::in_range(0, 1024));
  cli::add_progress_flag(verb, flags->show_progress);
  cli::add_json_flag(verb, flags->as_json);
  verb.callback([flags, &exit_code] { exit_code = cli::report(run_kernels(*flags)); });
}

}  // namespace quire::bench
