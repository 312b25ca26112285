// The GPU's source, compiled for the CPU.
#include "kernels/cuda/rows/gated_norm.cu"  // NOLINT
