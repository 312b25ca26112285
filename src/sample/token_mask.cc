#include "sample/token_mask.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "core/token_masks.h"

namespace quire {
namespace {

constexpr size_t kWordBits = 32;

}  // namespace

void apply_token_mask(std::span<const float> logits, std::span<const uint32_t> mask,
                      std::vector<float>& row) {
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

// Skips chunks whose greatest logit does not exceed the best one found.
TokenId greatest_allowed(const ScannedRow& row, std::span<const uint32_t> mask) {
  static_assert(kRowChunk % kWordBits == 0);
  float greatest = -std::numeric_limits<float>::infinity();
  TokenId found = -1;
  for (size_t chunk = 0; chunk < row.chunk_max.size(); ++chunk) {
    if (row.chunk_max[chunk] <= greatest) continue;
    const std::span<const float> logits = row.chunk(chunk);
    for (size_t begin = 0; begin < logits.size(); begin += kWordBits) {
      const size_t first = chunk * kRowChunk + begin;
      for (uint32_t word = mask[first / kWordBits]; word != 0; word &= word - 1) {
        const auto bit = static_cast<size_t>(std::countr_zero(word));
        if (begin + bit >= logits.size()) break;
        if (logits[begin + bit] <= greatest) continue;
        greatest = logits[begin + bit];
        found = static_cast<TokenId>(first + bit);
      }
    }
  }
  return found;
}

}  // namespace quire
