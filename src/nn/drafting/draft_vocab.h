// Heads that know some of a vocabulary's tokens alone.
#pragma once

#include <algorithm>
#include <span>

#include "base/ids.h"

namespace quire {

// What tokens get that the head does not know: they are never sampled, and are no error.
inline constexpr float kUnknownLogit = -1e30f;

// rows [R, map.size()]: logits of the tokens map[0], map[1], …; out [R, V].
inline void expand_logits(std::span<const TokenId> map, const float* rows, std::span<float> out,
                          size_t vocab_size) {
  std::ranges::fill(out, kUnknownLogit);
  for (size_t row = 0; row < out.size() / vocab_size; ++row) {
    for (size_t i = 0; i < map.size(); ++i)
      out[row * vocab_size + static_cast<size_t>(map[i])] = rows[row * map.size() + i];
  }
}

}  // namespace quire
