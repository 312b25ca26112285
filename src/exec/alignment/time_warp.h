// Dynamic time warping (Sakoe and Chiba, 1978): from how much each token attends to each row of a
// source, it finds where each token begins in that source. transformers and Whisper compute the
// times of words with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// The matrix has a line for each token and a column for each row of the source.
struct WarpShape {
  int64_t num_tokens = 0;
  int64_t num_rows = 0;
};

// Normalizes and smooths one head's weights [tokens, rows] in place. Each weight becomes the number
// of standard deviations that it lies above the mean of its row over the tokens, and then the
// median of `filter_rows` (odd) neighbouring rows, mirrored at both ends.
void sharpen_weights(std::span<float> weights, const WarpShape& shape, int32_t filter_rows);

// Returns the first row of each token along the best path from the first token and row to the last
// ones: of all paths that never go back, the one with the greatest sum of `fit` [tokens, rows].
// There is at least one token and one row.
std::vector<int32_t> first_rows(std::span<const float> fit, const WarpShape& shape);

}  // namespace quire
