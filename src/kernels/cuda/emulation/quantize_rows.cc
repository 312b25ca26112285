// The GPU's source, compiled for the CPU.
#include "kernels/cuda/linear/quantize_rows.cu"  // NOLINT
