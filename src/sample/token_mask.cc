#include "sample/token_mask.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "core/token_masks.h"

namespace quire {

void apply_token_mask(std::span<const float> logits, std::span<const uint32_t> mask,
                      std::vector<float>& row) {
  constexpr size_t kWordBits = 32;
  QUIRE_CHECK(mask.size() * kWordBits >= logits.size(), "a mask of {} words for {} logits",
              mask.size(), logits.size());
  row.assign(logits.size(), -std::numeric_limits<float>::infinity());
  for (size_t begin = 0; begin < logits.size(); begin += kWordBits) {
    const uint32_t word = mask[begin / kWordBits];
    if (word == 0) continue;
    const size_t end = std::min(begin + kWordBits, logits.size());
    for (size_t i = begin; i < end; ++i) {
      if ((word >> (i - begin) & 1u) != 0) row[i] = logits[i];
    }
  }
}

}  // namespace quire
