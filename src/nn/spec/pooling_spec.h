// What is made of the hidden states of a prompt, as plain data: exec/pooling_stage.h carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "kernels/api/activation.h"
#include "weights/names/name_map.h"

namespace quire {

// Which hidden states of a prompt become its one row.
enum class PoolingKind : uint8_t {
  kCls,  // the first token's
  kMean,
  kMax,   // the greatest of each column
  kLast,  // the last token's
};

// This is a norm of what a layer reads, which Decoder::pooling_layer() leaves to its caller.
struct InputNormSpec {
  TensorRole role = TensorRole::kDenseInputNorm;
  bool is_rms = false;        // else a LayerNorm with a bias
  bool has_weight = true;     // of an RMSNorm
  bool shifts_input = false;  // it reads (x + shift) * factor, column by column
  float shift_scale = 1.0f;   // of the shift that is stored
  float eps = 1e-6f;
};

// The layer computes y = norm(act(W x + b)), on pooled rows.
struct PoolingLayerSpec {
  TensorRole role = TensorRole::kClassifier;
  int32_t index = -1;  // of several layers of one role
  int64_t num_inputs = 0;
  int64_t num_outputs = 0;
  bool bias = true;
  std::optional<Activation> activation = {};
  std::optional<TensorRole> norm = {};  // LayerNorm without bias, with the model's eps
  std::optional<InputNormSpec> input_norm = {};
};

// How scores of labels become probabilities.
enum class ScoreActivation : uint8_t { kNone, kSigmoid, kSoftmax };

// num_columns 0: the model is not for pooling.
struct PoolingSpec {
  PoolingKind kind = PoolingKind::kLast;
  std::vector<PoolingLayerSpec> layers;
  int64_t num_columns = 0;  // of what comes out
  bool classifies = false;  // columns are labels, else an embedding
  bool per_token = false;   // rows are tokens unless a request asks otherwise
  // Models that judge steps have it: the token that ends a step. Their rows are those of such
  // tokens alone.
  std::optional<TokenId> step_token = {};
  // The last layer gives two numbers, and the one column is the first less the second: the logits of
  // the tokens that say yes and no.
  bool is_difference = false;
  bool normalizes = true;  // of embeddings: they are scaled to length 1
  ScoreActivation activation = ScoreActivation::kNone;

  bool any() const { return num_columns > 0; }
};

}  // namespace quire
