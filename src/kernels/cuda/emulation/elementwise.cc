// The GPU's source, compiled for the CPU.
#include "kernels/cuda/elementwise.cu"  // NOLINT
