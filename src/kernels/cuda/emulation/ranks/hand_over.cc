// The GPU's source, compiled for the CPU.
#include "kernels/cuda/ranks/hand_over.cu"  // NOLINT
