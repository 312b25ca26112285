// The GPU's source, compiled for the CPU.
#include "kernels/cuda/sampling/sampler.cu"  // NOLINT
