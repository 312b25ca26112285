// The GPU's source, compiled for the CPU.
#include "kernels/cuda/linear/int8_linear.cu"  // NOLINT
