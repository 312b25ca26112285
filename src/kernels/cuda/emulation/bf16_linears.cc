// The GPU's source, compiled for the CPU.
#include "kernels/cuda/linear/dense_linear_sm90a.cu"  // NOLINT
#include "kernels/cuda/linear/few_rows_linear.cu"     // NOLINT
