#include "sample/token_mask.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "core/token_masks.h"

namespace quire {

void apply_token_mask(std::span<const float> logits, std::span<const uint32_t> mask,
                      std::vector<float>& row) {
  constexpr size_t kWordBits = 32;
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  QUIRE_CHECK(mask.size() * kWordBits >= logits.size(), "a mask of {} words for {} logits",
              mask.size(), logits.size());
  row.resize(logits.size());
  for (size_t begin = 0; begin < logits.size(); begin += kWordBits) {
    const size_t count = std::min(kWordBits, logits.size() - begin);
    const uint32_t word = mask[begin / kWordBits];
    if (word == 0) {
      std::fill_n(row.begin() + static_cast<ptrdiff_t>(begin), count, kForbidden);
      continue;
    }
    std::copy_n(logits.begin() + static_cast<ptrdiff_t>(begin), count,
                row.begin() + static_cast<ptrdiff_t>(begin));
    for (uint32_t clear = ~word; clear != 0; clear &= clear - 1) {
      const auto bit = static_cast<size_t>(std::countr_zero(clear));
      if (bit >= count) break;
      row[begin + bit] = kForbidden;
    }
  }
}

}  // namespace quire
