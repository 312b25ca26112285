// The GPU's source, compiled for the CPU.
#include "kernels/cuda/streams/residual_streams.cu"  // NOLINT
