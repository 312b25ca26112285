// The GPU's source, compiled for the CPU.
#include "kernels/cuda/experts/sort_pairs.cu"  // NOLINT
