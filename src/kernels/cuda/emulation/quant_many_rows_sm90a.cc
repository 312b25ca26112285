// The GPU's source, compiled for the CPU.
#include "kernels/cuda/quant/quant_many_rows_sm90a.cu"  // NOLINT
