// A DevicePlan is a model cut for one device, as lists of kernels that cost_model.cc sums over.
#pragma once

#include <vector>

#include "roofline/model/cost_model.h"
#include "roofline/model/kernel_time.h"

namespace quire {

// A LinearOp is one matrix product of a layer: [T, k] x [n, k]^T.
struct LinearOp {
  Kernel kernel = Kernel::kMlp;
  double n = 0;
  double k = 0;
  NumberFormat weights;
};

// A GroupPlan has the layers of one group on one device.
struct GroupPlan {
  double num_layers = 0;
  std::vector<LinearOp> linears;  // run over all tokens
  AttentionWork prefill;
  AttentionWork decode;
  AttentionWork index;                     // scores of an indexer; without heads: there is none
  int window_index = -1;                   // into DecodeSums::windowed; -1: all tokens are read
  double elementwise_bytes_per_token = 0;  // read and written
  double elementwise_written_per_token = 0;
  StateWork state;
  double num_reductions = 2;  // all-reduces of a layer under tensor parallelism
  double latent_width = 0;    // heads * (Dqk + Dv) of latent attention; 0: another kind
  // Without routed experts num_experts is 0.
  double num_experts = 0;
  double experts_per_token = 0;
  double gate_up_rows = 0;  // of one expert on this device
  double down_depth = 0;
};

struct DevicePlan {
  std::vector<GroupPlan> groups;
  // With ModelShape::source: of each layer, from its queries to its output; of each layer, from rows to
  // keys and values; and what makes the rows.
  AttentionWork cross;
  LinearOp source_kv;
  std::vector<LinearOp> encoder_front;
  std::vector<GroupPlan> encoder;
  // With ModelShape::tower: what makes rows of patches, the layers, and what makes embeddings.
  std::vector<LinearOp> tower_front;
  std::vector<GroupPlan> tower;
  std::vector<int32_t> tower_windows;  // of each group; 0: a row sees all
  std::vector<LinearOp> projector;
  double hidden_size = 0;
  double vocab_rows = 0;  // of the head on this device
  double vocab_size = 0;
  double activation_bytes = 2;
  double embedding_bytes = 2;
};

DevicePlan plan_device(const ModelShape& model, const Parallelism& parallelism);

// These are the small kernels of one latent attention module beside its products and attention:
// norms of the latents, splitting, rope, expanding, joining and padding of queries, keys and
// values. Devices with units need them only because of how they work, so they are no part of the
// bound. The time is zero for other kinds and on CPUs.
KernelTime latent_copies_time(const GroupPlan& group, double tokens, double activation_bytes,
                              const Hardware& hardware);

// Returns how many experts at least one of `tokens` tokens picks, under uniform routing.
double distinct_experts(double num_experts, double experts_per_token, double tokens);

}  // namespace quire
