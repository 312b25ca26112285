// The GPU's source, compiled for the CPU.
#include "kernels/cuda/experts/quant_few_rows_experts.cu"  // NOLINT
