// The GPU's source, compiled for the CPU.
#include "kernels/cuda/states/step_gates.cu"  // NOLINT
