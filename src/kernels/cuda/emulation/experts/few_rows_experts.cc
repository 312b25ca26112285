// The GPU's source, compiled for the CPU.
#include "kernels/cuda/experts/few_rows_experts.cu"  // NOLINT
