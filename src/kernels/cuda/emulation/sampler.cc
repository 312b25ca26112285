// The GPU's source, compiled for the CPU.
#include "kernels/cuda/sampler.cu"  // NOLINT
