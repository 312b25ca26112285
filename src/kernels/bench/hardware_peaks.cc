#include "kernels/bench/hardware_peaks.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "device/isa.h"
#include "kernels/bench/bench_memory.h"
#include "kernels/cpu/dispatch.h"

namespace quire {
namespace {

// Returns the fastest of some runs of body(thread) on all threads, so that other work on the
// machine disturbs it less.
template <typename Body>
double best_us(HostStream& stream, int num_tries, Body&& body) {
  double best = 1e30;
  for (int i = 0; i < num_tries; ++i) {
    const double start = bench::now_us(bench::clock_of(stream));
    stream.team().run(body);
    best = std::min(best, bench::now_us(bench::clock_of(stream)) - start);
  }
  return best;
}

double read_gb_per_s(HostStream& stream, int64_t bytes, int num_tries) {
  // Always uses the best instruction set, since memory bandwidth does not depend on the requested
  // one.
  const auto& reader = cpu::probe_kernels(cpu::vector_isa(best_isa()), {.dtype = DType::kF32});
  const bench::Mapping memory(bytes);
  bench::fill(stream, memory.data(), bytes);
  const int num_threads = stream.team().size();
  std::vector<float> sinks(static_cast<size_t>(num_threads) * 16);
  const int64_t read = bytes - 4096;  // the probe prefetches past its end
  const double us = best_us(stream, num_tries, [&](int thread) {
    const WorkRange mine = split_work(read, 4096, thread, num_threads);
    reader.read(memory.data() + mine.begin, mine.end - mine.begin, &sinks[thread * 16]);
  });
  return static_cast<double>(read) * 1e-3 / us;
}

double gflop_per_s(HostStream& stream, double (*probe)(int64_t, float*), int num_tries) {
  constexpr int64_t kIterations = 50000;
  std::vector<float> sinks(static_cast<size_t>(stream.team().size()) * 16);
  std::vector<double> flops(static_cast<size_t>(stream.team().size()));
  const double us = best_us(stream, num_tries, [&](int thread) {
    flops[thread] = probe(kIterations, &sinks[thread * 16]);
  });
  return std::accumulate(flops.begin(), flops.end(), 0.0) / us * 1e-3;
}

}  // namespace

double probe_cache_gb_per_s(HostStream& stream, int64_t bytes) {
  return read_gb_per_s(stream, bytes, 64);
}

int64_t probe_memory_bytes(int num_threads) { return bench::cold_bytes(num_threads); }

HardwarePeaks probe_peaks(HostStream& stream, const ProbeOptions& options) {
  const Isa isa = stream.isa();
  const int tries = options.num_tries;
  const auto& f32 = cpu::probe_kernels(isa, {.dtype = DType::kF32});
  const auto& bf16 =
      cpu::probe_kernels(isa, {.dtype = DType::kBF16, .compute = ComputeType::kBF16});
  const auto& int8 = cpu::probe_kernels(isa, {.dtype = DType::kI8, .compute = ComputeType::kInt8});
  return {.read_gb_per_s = read_gb_per_s(stream, probe_memory_bytes(stream.team().size()),
                                         std::max(2, tries / 8)),
          .f32_gflop_per_s = gflop_per_s(stream, f32.multiply_add, tries),
          .bf16_gflop_per_s = gflop_per_s(stream, bf16.multiply_add, tries),
          .int8_gop_per_s = gflop_per_s(stream, int8.multiply_add_int8, tries)};
}

}  // namespace quire
