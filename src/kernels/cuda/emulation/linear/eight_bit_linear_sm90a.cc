// The GPU's source, compiled for the CPU.
#include "kernels/cuda/linear/eight_bit_linear_sm90a.cu"  // NOLINT
