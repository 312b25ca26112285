// The GPU's source, compiled for the CPU.
#include "kernels/cuda/read_bytes.cu"  // NOLINT
