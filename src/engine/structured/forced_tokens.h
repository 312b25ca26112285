// The tokens with which a model most likely writes a forced text.
#pragma once

#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/tokenizer.h"

namespace quire {

// Returns the tokens into which `tokenizer` splits `text` after `before`, the bytes of the previous
// token. Returns none if a token would cover parts of both, or if `before` is not whole characters;
// an unfinished character at the end of `text` is left out.
std::vector<TokenId> tokens_after(const Tokenizer& tokenizer, std::string_view before,
                                  std::string_view text);

}  // namespace quire
