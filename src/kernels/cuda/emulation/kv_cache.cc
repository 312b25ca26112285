// The GPU's source, compiled for the CPU.
#include "kernels/cuda/attention/kv_cache.cu"  // NOLINT
