// CrossSpec describes cross-attention: a decoder's tokens also attend to rows that an encoder has
// computed from a source. Every layer that reads the source has its own keys and values of these
// rows, which are written once and do not grow with the tokens (Whisper, BART, T5, Llama 3.2
// Vision).
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

struct CrossSpec {
  int32_t num_heads = 0;  // 0: the model has no cross-attention
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 1.0f;    // of scores
  bool bias = false;     // of all four projections
  bool qk_norm = false;  // RMSNorm of each head of queries and keys
  // The outputs of the layer's cross-attention and of its MLP are multiplied by the hyperbolic
  // tangents of two numbers. A sequence may have no source; such layers then leave its tokens
  // unchanged.
  bool gated = false;
  int64_t source_size = 0;     // of a row
  int32_t max_source_len = 0;  // rows of the longest source
  // Heads whose attention tells which rows a token is about (Whisper). Empty: unknown.
  struct AlignmentHead {
    int32_t layer = 0;
    int32_t head = 0;
  };
  std::vector<AlignmentHead> alignment_heads = {};
  int32_t alignment_filter_rows = 7;  // width of the median that smooths their attention, odd

  bool any() const { return num_heads > 0; }
  int64_t rows() const { return int64_t{num_heads} * head_dim; }
  int64_t kv_rows() const { return int64_t{num_kv_heads} * head_dim; }
  // Returns the number of parameters of a layer's projections.
  int64_t num_parameters(int64_t hidden_size) const {
    if (!any()) return 0;
    const int64_t matrices = 2 * rows() * hidden_size + 2 * kv_rows() * source_size;
    const int64_t beside = (qk_norm ? 2 * head_dim : 0) + (gated ? 2 : 0);
    return matrices + beside + (bias ? rows() + 2 * kv_rows() + hidden_size : 0);
  }
};

}  // namespace quire
