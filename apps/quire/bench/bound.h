// The least time that the hardware allows for a step, from shapes and two measured ceilings.
#pragma once

#include <cstdint>

#include "exec/model_plan.h"

namespace quire::bench {

struct Ceilings {
  double read_bytes_per_s = 0;  // streaming reads from memory, all threads
  double flops_per_s = 0;  // multiply-adds of the instruction set in use, two per FMA, all threads
};

class Bound {
 public:
  Bound(const ModelPlan& plan, const Ceilings& ceilings);

  // One token for each of `batch_size` requests whose contexts are `context` tokens long.
  double decode_s(int32_t batch_size, double context) const;
  // `num_tokens` prompt tokens from position 0, logits for the last alone.
  double prefill_s(int64_t num_tokens) const;

  const Ceilings& ceilings() const { return ceilings_; }
  double decode_bytes(int32_t batch_size, double context) const;
  double prefill_flops(int64_t num_tokens) const;

 private:
  double layer_parameters_;
  double head_parameters_;
  double weight_bytes_;  // that a step reads
  double kv_bytes_per_token_;
  double attention_flops_per_pair_;  // of one query with one key, all layers
  Ceilings ceilings_;
};

}  // namespace quire::bench
