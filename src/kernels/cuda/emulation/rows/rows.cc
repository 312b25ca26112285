// The GPU's source, compiled for the CPU.
#include "kernels/cuda/rows/rows.cu"  // NOLINT
