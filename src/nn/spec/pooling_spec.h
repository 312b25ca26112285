// PoolingSpec describes what is computed from the hidden states of a prompt, as plain data;
// exec/pooling_stage.h computes it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "kernels/api/activation.h"
#include "weights/names/name_map.h"

namespace quire {

// How the hidden states of a prompt become its one row.
enum class PoolingKind : uint8_t {
  kCls,  // the first token's
  kMean,
  kMax,   // the greatest of each column
  kLast,  // the last token's
};

// A norm of a layer's input, which DecoderHead::pooling_layer() leaves to its caller.
struct InputNormSpec {
  TensorRole role = TensorRole::kDenseInputNorm;
  bool is_rms = false;        // otherwise a LayerNorm with a bias
  bool has_weight = true;     // of an RMSNorm
  bool shifts_input = false;  // the layer reads (x + shift) * factor, column by column
  float shift_scale = 1.0f;   // factor on the stored shift
  float eps = 1e-6f;
};

// The layer computes y = norm(act(W x + b)) on pooled rows.
struct PoolingLayerSpec {
  TensorRole role = TensorRole::kClassifier;
  int32_t index = -1;  // among several layers of one role
  int64_t num_inputs = 0;
  int64_t num_outputs = 0;
  bool bias = true;
  std::optional<Activation> activation = {};
  std::optional<TensorRole> norm = {};  // LayerNorm without bias, with the model's eps
  std::optional<InputNormSpec> input_norm = {};
};

// How scores of labels become probabilities.
enum class ScoreActivation : uint8_t { kNone, kSigmoid, kSoftmax };

// With num_columns 0, the model does not pool.
struct PoolingSpec {
  PoolingKind kind = PoolingKind::kLast;
  std::vector<PoolingLayerSpec> layers;
  int64_t num_columns = 0;  // of the result
  bool classifies = false;  // the columns are labels; otherwise an embedding
  bool per_token = false;   // a row per token, unless a request asks for pooled rows
  // The token that ends a step, for models that judge steps. Their result has rows only for such
  // tokens.
  std::optional<TokenId> step_token = {};
  // The last layer computes two numbers, the logits of the tokens for yes and no, and the one
  // column of the result is their difference.
  bool is_difference = false;
  bool normalizes = true;  // scales embeddings to length 1
  ScoreActivation activation = ScoreActivation::kNone;

  bool any() const { return num_columns > 0; }
};

}  // namespace quire
