// The GPU's source, compiled for the CPU.
#include "kernels/cuda/attention/attention_decode.cu"  // NOLINT
