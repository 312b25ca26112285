// The GPU's source, compiled for the CPU.
#include "kernels/cuda/lora/lora.cu"  // NOLINT
