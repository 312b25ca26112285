// The GPU's source, compiled for the CPU.
#include "kernels/cuda/linear/plain_linear.cu"  // NOLINT
