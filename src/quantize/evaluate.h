// Measures how far a quantized model's predictions are from those of its source, on one text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "exec/model_plan.h"

namespace quire {

// The logits of every token of a text but the last, [num_rows, V], and the tokens that came next.
struct TextLogits {
  int64_t vocab_size = 0;
  std::vector<float> logits;
  std::vector<TokenId> next;  // [num_rows]
  int64_t num_rows() const { return static_cast<int64_t>(next.size()); }
  std::span<const float> row(int64_t i) const;
};

// Loads the model, runs the tokens through it as one sequence, and frees it. `options` has files or
// shape, types and threads; this function sets the lengths.
Result<TextLogits> text_logits(ModelRunnerOptions options, std::span<const TokenId> tokens);

struct LogitComparison {
  double source_perplexity = 0.0;
  double perplexity = 0.0;       // of the quantized model
  double relative_error = 0.0;   // |difference| / |source logits|, mean over rows
  double kl_divergence = 0.0;    // nats, mean over rows
  double same_best_token = 0.0;  // share of rows
  int64_t num_rows = 0;
};
// Both must have the same tokens and vocabulary.
LogitComparison compare_logits(const TextLogits& source, const TextLogits& quantized);

}  // namespace quire
