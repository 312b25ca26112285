// What this machine can do at most, measured: the bounds that kernels are judged by.
#pragma once

#include "device/stream.h"

namespace quire {

// Of the whole team, best of several tries, with the instructions that linear() would use on the
// stream's instruction set.
struct HardwarePeaks {
  double read_gb_per_s = 0;     // plain reads with software prefetch, past the caches
  double f32_gflop_per_s = 0;   // float weights and activations
  double bf16_gflop_per_s = 0;  // both bf16 (equals f32 without a dot product)
  double int8_gop_per_s = 0;    // both int8
};
struct ProbeOptions {
  int num_tries = 48;  // of multiply-adds, an eighth of memory; the best counts
};
HardwarePeaks probe_peaks(HostStream& stream, const ProbeOptions& options = {});
// What it reads through at every try: more than the caches hold, and for long enough that a burst
// which memory could not go on with does not pass for its speed.
int64_t probe_memory_bytes(int num_threads);
// Read bandwidth of data that stays in the caches: `bytes` over and over, all threads.
double probe_cache_gb_per_s(HostStream& stream, int64_t bytes);

}  // namespace quire
