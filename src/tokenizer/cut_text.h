// cut_text() removes tokens from texts that are too long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire {

// The side of a text on which tokens are removed.
enum class CutSide : uint8_t { kLeft, kRight };

// `whole` holds the tokens of a text and the special tokens around it, and `bare` those of the text
// alone. Removes tokens of the text on one side until at most `most` are left, or only special
// tokens. Returns kInvalidArgument if `whole` is too long and does not contain `bare`, as with a
// tokenizer that encodes a text differently beside special tokens.
Result<std::vector<TokenId>> cut_text(std::vector<TokenId> whole, std::span<const TokenId> bare,
                                      int64_t most, CutSide side);

}  // namespace quire
