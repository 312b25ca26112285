// The GPU's source, compiled for the CPU.
#include "kernels/cuda/kv_cache.cu"  // NOLINT
