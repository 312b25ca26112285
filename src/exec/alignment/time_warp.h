// Dynamic time warping (Sakoe and Chiba, 1978) finds where each token begins in a source, from how
// much each token attends to each row of it. transformers and Whisper find the times of words with
// it.
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

// One head's weights [tokens, rows], in place: how many standard deviations each is above the mean of its
// row's over the tokens, then of `filter_rows` neighbours (odd) the median, mirrored at both ends.
void sharpen_weights(std::span<float> weights, const WarpShape& shape, int32_t filter_rows);

// Returns the first row of each token along a path from the first token and row to the last ones:
// the path that never goes back and on which the sum of `fit` [tokens, rows] is greatest. Both
// sides are at least 1.
std::vector<int32_t> first_rows(std::span<const float> fit, const WarpShape& shape);

}  // namespace quire
