// The similarity of two embeddings.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace quire {

// Returns the cosine of the angle between two rows of equal length, or 0 if one of them is zero.
inline double cosine_similarity(std::span<const float> a, std::span<const float> b) {
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  const double norms = std::sqrt(aa * bb);
  return norms > 0.0 ? ab / norms : 0.0;
}

}  // namespace quire
