// The GPU's source, compiled for the CPU.
#include "kernels/cuda/experts/quant_many_rows_experts_sm90a.cu"  // NOLINT
