// Cuts the tokens of texts that are too long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

// `whole` are the tokens of a text with what the tokenizer puts around them, and `bare` those
// without. Removes the last of `bare` from `whole` until at most `most` tokens are left, or none of
// `bare`. kInvalidArgument: `whole` is too long and does not contain `bare`, as with a tokenizer
// that encodes a text otherwise when it puts something around it.
Result<std::vector<TokenId>> cut_text(std::vector<TokenId> whole, std::span<const TokenId> bare,
                                      int64_t most);

}  // namespace quire
