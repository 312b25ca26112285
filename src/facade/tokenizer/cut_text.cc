#include "facade/tokenizer/cut_text.h"

#include <algorithm>

namespace quire {

Result<std::vector<TokenId>> cut_text(std::vector<TokenId> whole, std::span<const TokenId> bare,
                                      int64_t most) {
  const int64_t excess = std::ssize(whole) - most;
  if (excess <= 0) return whole;
  const auto at = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
  if (at == whole.end()) {
    return invalid_argument(
        "text: expected at most {} tokens, got {}; it cannot be cut, since its tokens are others "
        "without those that the tokenizer puts around them",
        most, whole.size());
  }
  const auto end = at + std::ssize(bare);
  whole.erase(end - std::min<int64_t>(excess, std::ssize(bare)), end);
  return whole;
}

}  // namespace quire
