// DevicePlan: the part of a model on one device, as lists of kernels that cost_model.cc sums over.
#pragma once

#include <vector>

#include "roofline/model/cost_model.h"
#include "roofline/model/kernel_time.h"

namespace quire {

// One matrix product of a layer: [T, k] x [n, k]^T.
struct LinearOp {
  Kernel kernel = Kernel::kMlp;
  double n = 0;
  double k = 0;
  NumberFormat weights;
};

// The layers of one group on one device.
struct GroupPlan {
  double num_layers = 0;
  std::vector<LinearOp> linears;  // products over all tokens
  AttentionWork prefill;
  AttentionWork decode;
  AttentionWork index;                     // scores of an indexer; without heads: none
  int window_index = -1;                   // index in DecodeSums::windowed; -1: all tokens are read
  double elementwise_bytes_per_token = 0;  // read and written
  double elementwise_written_per_token = 0;
  StateWork state;
  double num_reductions = 2;  // all-reduces per layer under tensor parallelism
  double latent_width = 0;    // heads * (Dqk + Dv) of latent attention; 0: another kind
  // 0: no routed experts.
  double num_experts = 0;
  double experts_per_token = 0;
  double gate_up_rows = 0;  // of one expert on this device
  double down_depth = 0;
};

struct DevicePlan {
  std::vector<GroupPlan> groups;
  // With ModelShape::source: the attention of each layer to the source, with its products for
  // queries and output; the products of each layer from rows to keys and values; and the encoder.
  AttentionWork cross;
  LinearOp source_kv;
  std::vector<LinearOp> encoder_front;
  std::vector<GroupPlan> encoder;
  // With ModelShape::tower: the products that make rows from patches, the layers, and the products
  // that make embeddings.
  std::vector<LinearOp> tower_front;
  std::vector<GroupPlan> tower;
  std::vector<int32_t> tower_windows;  // of each group; 0: a row sees all rows
  std::vector<LinearOp> projector;
  double hidden_size = 0;
  double vocab_rows = 0;  // of the head on this device
  double vocab_size = 0;
  double activation_bytes = 2;
  double embedding_bytes = 2;
};

DevicePlan plan_device(const ModelShape& model, const Parallelism& parallelism);

// Returns the time of the small kernels of one latent attention module beside its products and
// attention: norms of the latents, splitting, rope, expanding, joining and padding of queries, keys
// and values. Only the way in which devices with units work makes them necessary, so they are no
// part of the bound. The time is zero for other kinds of attention and on CPUs.
KernelTime latent_copies_time(const GroupPlan& group, double tokens, double activation_bytes,
                              const Hardware& hardware);

// Returns how many experts are picked by at least one of `tokens` tokens, under uniform routing.
double distinct_experts(double num_experts, double experts_per_token, double tokens);

}  // namespace quire
