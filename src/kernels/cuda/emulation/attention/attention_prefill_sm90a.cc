// The GPU's source, compiled for the CPU.
#include "kernels/cuda/attention/attention_prefill_sm90a.cu"  // NOLINT
