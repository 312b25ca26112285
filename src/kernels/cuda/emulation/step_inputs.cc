// The GPU's source, compiled for the CPU.
#include "kernels/cuda/step_inputs.cu"  // NOLINT
