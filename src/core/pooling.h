// What a pooled request wants to have computed from its prompt, and the result.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

enum class PoolingTask : uint8_t {
  kEmbed,          // one vector for the prompt
  kClassify,       // one score per label for the prompt
  kTokenEmbed,     // one vector per token
  kTokenClassify,  // one score per label for each token
  // The row of the source at which each token from first_aligned_token on begins.
  kAlign,
};

constexpr bool is_per_token(PoolingTask task) {
  return task == PoolingTask::kTokenEmbed || task == PoolingTask::kTokenClassify ||
         task == PoolingTask::kAlign;
}
constexpr bool is_classification(PoolingTask task) {
  return task == PoolingTask::kClassify || task == PoolingTask::kTokenClassify;
}

struct PoolingParams {
  PoolingTask task = PoolingTask::kEmbed;
  // Vectors are scaled to length 1 and label scores become probabilities, in the way the model
  // defines.
  bool use_activation = true;
  int32_t dimensions = 0;  // the first dimensions of a vector that are kept; 0: all
  // For a pair of texts: tokens before this one are of type 0, the others of type 1. -1: all tokens
  // are of type 0.
  int32_t first_type_1_token = -1;
  // The result needs the hidden states of all tokens, so no token may come from the prefix cache.
  bool reads_all_tokens = false;
  // For kAlign: the tokens before this one steer the model and are not aligned. Only the first
  // num_aligned_rows rows of the source are considered.
  int32_t first_aligned_token = 0;
  int32_t num_aligned_rows = 0;
};

// The output has one row for the prompt, or one per token.
struct PooledOutput {
  int32_t num_columns = 0;
  std::vector<float> values;  // [rows, num_columns]

  int32_t num_rows() const {
    return num_columns == 0 ? 0 : static_cast<int32_t>(values.size()) / num_columns;
  }
};

// The pooling tasks that a model can do.
struct PoolingInfo {
  int32_t embedding_size = 0;  // columns of embeddings; 0: the model has none
  int32_t num_labels = 0;      // columns of classifications; 0: the model has none
  // Whether the tasks with one output row need the hidden states of all tokens.
  bool reads_all_tokens = false;
  // Tokens attend to later ones too, so a prompt is computed in one step and no other request can
  // use its KV.
  bool is_bidirectional = false;

  // Tokens can be aligned with the rows of a source. No client asks for that by itself, so any()
  // leaves it out.
  bool aligns = false;

  bool supports(PoolingTask task) const {
    if (task == PoolingTask::kAlign) return aligns;
    return (is_classification(task) ? num_labels : embedding_size) > 0;
  }
  bool any() const { return embedding_size > 0 || num_labels > 0; }
};

}  // namespace quire
