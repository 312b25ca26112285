// The GPU's source, compiled for the CPU.
#include "kernels/cuda/quantize_rows.cu"  // NOLINT
