// Text that must come, as the tokens a model most likely writes it with.
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// Returns the tokens that `tokenizer` cuts `text` into where it follows `before`, the bytes of the
// token in front. Empty where its tokens would reach from one into the other, or where `before` is
// no whole characters; an unfinished character at the end of `text` is left out.
std::vector<TokenId> tokens_after(const Tokenizer& tokenizer, std::string_view before,
                                  std::string_view text);

}  // namespace quire
