// The table of the kernels of choose_tokens() (api/sparse_attention.h). kernel_tables.h has those
// of other ops.
#pragma once

#include <stdint.h>

#include "device/stream.h"
#include "kernels/cpu/kernel_tables.h"

namespace quire::cpu {

// The arguments for scoring keys with one query, whose heads are lanes. `heads` is their number,
// padded to 16 with heads of weight 0.
struct IndexScoresArgs {
  const float* query;    // [head_dim][heads]
  const float* weights;  // [heads]
  int64_t heads;
  int64_t head_dim;
  const float* keys;  // [num_keys][head_dim]
  int64_t num_keys;
  float* scores;  // [num_keys]
};

struct IndexKernels {
  void (*scores)(const IndexScoresArgs& args);
};

// Returns the kernels of an instruction set.
const IndexKernels& index_kernels(Isa isa);

extern const IndexKernels kIndexPortable;
extern const IndexKernels kIndexAvx2;
extern const IndexKernels kIndexAvx512;

}  // namespace quire::cpu
