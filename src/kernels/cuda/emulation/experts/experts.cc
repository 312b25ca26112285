// The GPU's source, compiled for the CPU.
#include "kernels/cuda/experts/experts.cu"  // NOLINT
