// The GPU's source, compiled for the CPU.
#include "kernels/cuda/linear/quant_linear.cu"  // NOLINT
