// The GPU's source, compiled for the CPU.
#include "kernels/cuda/states/causal_conv.cu"  // NOLINT
