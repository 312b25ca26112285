// Measures the most that this machine can do: the bounds that kernels are compared with.
#pragma once

#include "device/stream.h"

namespace quire {

// Peaks of the whole team, the best of several tries. Products use the instructions that linear()
// uses on the stream's instruction set.
struct HardwarePeaks {
  double read_gb_per_s = 0;     // plain reads with software prefetch, past the caches
  double f32_gflop_per_s = 0;   // float weights and activations
  double bf16_gflop_per_s = 0;  // both bf16 (equals f32 without a dot product)
  double int8_gop_per_s = 0;    // both int8
};
struct ProbeOptions {
  int num_tries = 48;  // of multiply-adds; an eighth as many of memory
};
HardwarePeaks probe_peaks(HostStream& stream, const ProbeOptions& options = {});
// Returns how many bytes each try reads: more than the caches hold, and enough that a short burst,
// faster than memory can sustain, does not pass for its bandwidth.
int64_t probe_memory_bytes(int num_threads);
// Returns the read bandwidth of data that stays in the caches, reading `bytes` repeatedly on all
// threads.
double probe_cache_gb_per_s(HostStream& stream, int64_t bytes);

}  // namespace quire
