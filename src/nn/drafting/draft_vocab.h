// Support for heads that compute logits of only some tokens of the vocabulary.
#pragma once

#include <algorithm>
#include <span>

#include "base/ids.h"

namespace quire {

// The logit of tokens that the head has no row for. It is finite, so that it is no error, and so low
// that these tokens are never sampled.
inline constexpr float kUnknownLogit = -1e30f;

// Expands rows [R, map.size()], the logits of tokens map[0], map[1], …, to out [R, V].
inline void expand_logits(std::span<const TokenId> map, const float* rows, std::span<float> out,
                          size_t vocab_size) {
  std::ranges::fill(out, kUnknownLogit);
  for (size_t row = 0; row < out.size() / vocab_size; ++row) {
    for (size_t i = 0; i < map.size(); ++i)
      out[row * vocab_size + static_cast<size_t>(map[i])] = rows[row * map.size() + i];
  }
}

}  // namespace quire
