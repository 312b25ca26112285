// What a pooled request asks of its prompt, and what comes of it.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

enum class PoolingTask : uint8_t {
  kEmbed,          // one vector for the prompt
  kClassify,       // one score per label for the prompt
  kTokenEmbed,     // one vector per token
  kTokenClassify,  // one score per label for each token
  kAlign,          // the row of the source where each token begins, from first_aligned_token on
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
  // Vectors are scaled to length 1, scores of labels become probabilities, as the model has it.
  bool use_activation = true;
  int32_t dimensions = 0;  // of vectors: only the first so many are kept; 0: all
  // Of a pair of texts: tokens before this one are of type 0, the others of type 1. -1: all are of
  // type 0.
  int32_t first_type_1_token = -1;
  // The hidden states of all tokens count, so none may come from the prefix cache.
  bool reads_all_tokens = false;
  // Of kAlign: tokens before it steer the model, and rows of the source behind so many are nobody's.
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

// What a model can make of prompts.
struct PoolingInfo {
  int32_t embedding_size = 0;  // columns of embeddings; 0: there are none
  int32_t num_labels = 0;      // columns of classifications; 0: there are none
  // Of tasks with one row: whether it is made of the hidden states of all tokens.
  bool reads_all_tokens = false;
  // Tokens see those behind them: a prompt is computed in one step, and its KV serves nobody else.
  bool is_bidirectional = false;

  // Tokens can be aligned with the rows of a source. No request of its own asks for it: any() is about
  // the others.
  bool aligns = false;

  bool supports(PoolingTask task) const {
    if (task == PoolingTask::kAlign) return aligns;
    return (is_classification(task) ? num_labels : embedding_size) > 0;
  }
  bool any() const { return embedding_size > 0 || num_labels > 0; }
};

}  // namespace quire
