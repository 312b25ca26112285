// The table of the kernels of api/lora.h. kernel_tables.h has those of other ops.
#pragma once

#include <stdint.h>

#include "device/stream.h"
#include "kernels/cpu/kernel_tables.h"

namespace quire::cpu {

// h[i, j] = scale * sum_k x[rows[i], k] * a[j, k], one sum in the order of k per h[i, j].
struct LoraShrinkArgs {
  const float* x;
  int64_t x_stride;
  const int32_t* rows;
  int64_t num_rows;
  const void* a;  // [num_ranks, k]
  int64_t num_ranks;
  int64_t k;
  Storage storage;
  float scale;
  float* h;
  int64_t h_stride;
};

// y[rows[i], n] += gain[n] * sum_r h[i, r] * b[n, r] + bias[n] + base_gain[n] * base[i, n].
struct LoraExpandArgs {
  const float* h;  // [num_rows, h_stride]
  int64_t h_stride;
  const int32_t* rows;
  int64_t num_rows;
  const void* b;  // panels of 16 outputs, [rank][16] each
  int64_t rank;
  int64_t num_outputs;  // in these panels
  Storage storage;
  // From the first output of these panels on, or null.
  const float* bias;
  const float* gain;
  const float* base_gain;
  const float* base;  // [num_rows, base_stride]
  int64_t base_stride;
  float* y;  // row 0, at the first output
  int64_t y_stride;
};

struct LoraKernels {
  void (*shrink)(const LoraShrinkArgs& args);
  void (*expand)(const LoraExpandArgs& args);
};

// Returns the kernels of an instruction set.
const LoraKernels& lora_kernels(Isa isa);

extern const LoraKernels kLoraPortable;
extern const LoraKernels kLoraAvx2;
extern const LoraKernels kLoraAvx512;

}  // namespace quire::cpu
