// The GPU's source, compiled for the CPU.
#include "kernels/cuda/quant_linear.cu"  // NOLINT
