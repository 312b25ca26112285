// MedusaHeads are additional heads on a model, which predict the tokens after the next one (Medusa;
// Cai et al., 2024). Each consists of a few blocks x += silu(W x + b) on the model's last hidden
// state, and of a matrix that computes logits.
#pragma once

#include <cstdint>
#include <vector>

#include "device/stream.h"
#include "nn/weights/linear_weights.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"

namespace quire {

struct MedusaSpec {
  int64_t hidden_size = 0;  // E
  int64_t num_logits = 0;   // rows of a head
  int64_t num_heads = 0;
  int64_t num_blocks = 1;    // of a head
  bool has_bias = false;     // of the blocks
  bool shares_head = false;  // all heads use one matrix for logits
};

// Borrows the stream. One thread may use it.
class MedusaHeads {
 public:
  MedusaHeads(const MedusaSpec& spec, DType dtype, ComputeType compute);
  MedusaHeads(const MedusaHeads&) = delete;
  MedusaHeads& operator=(const MedusaHeads&) = delete;

  // The slots must be filled before the first logits().
  const std::vector<WeightSlot>& slots() const { return slots_; }

  int64_t workspace_bytes(const Stream& stream, int64_t max_rows) const;
  void make_workspace(const Stream& stream, int64_t max_rows, Arena& arena);

  // Computes out [R, num_logits] from hidden states x [R, E], which are overwritten.
  void logits(Stream& stream, int64_t head, float* x, int64_t num_rows, float* out);

 private:
  void add_matrix(int32_t head, int32_t block, SlotPart part, LinearWeights& out, bool bias);
  int64_t linear_bytes(const Stream& stream, int64_t max_rows) const;

  const MedusaSpec spec_;
  const DType dtype_;
  const ComputeType compute_;
  std::vector<std::vector<LinearWeights>> blocks_;  // by head
  std::vector<LinearWeights> heads_;
  std::vector<WeightSlot> slots_;
  float* inside_ = nullptr;  // [R, E]
  void* workspace_ = nullptr;
};

}  // namespace quire
