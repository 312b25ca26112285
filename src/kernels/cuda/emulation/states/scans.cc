// The GPU's source, compiled for the CPU.
#include "kernels/cuda/states/scans.cu"  // NOLINT
