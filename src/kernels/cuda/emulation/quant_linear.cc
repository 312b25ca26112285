// The GPU's source, compiled for the CPU.
#include "kernels/cuda/quant/quant_linear.cu"  // NOLINT
