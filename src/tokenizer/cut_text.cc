#include "tokenizer/cut_text.h"

#include <algorithm>

namespace quire {

Result<std::vector<TokenId>> cut_text(std::vector<TokenId> whole, std::span<const TokenId> bare,
                                      int64_t most, CutSide side) {
  const int64_t excess = std::ssize(whole) - most;
  if (excess <= 0) return whole;
  const auto at = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
  if (at == whole.end()) {
    return invalid_argument(
        "expected at most {} tokens, got {}; the text cannot be cut, since the tokenizer encodes "
        "it "
        "differently without special tokens",
        most, whole.size());
  }
  const int64_t num_cut = std::min<int64_t>(excess, std::ssize(bare));
  const auto first = side == CutSide::kLeft ? at : at + std::ssize(bare) - num_cut;
  whole.erase(first, first + num_cut);
  return whole;
}

}  // namespace quire
