// The limit of a model's reasoning before it answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace quire {

// Tokens are counted while the text has one of `begins` and none of `ends` after it. After
// `max_tokens` of them the model must go on with `forced_token_ids`.
struct ReasoningBudget {
  int32_t max_tokens = 0;      // 0: the model does not reason
  bool begins_inside = false;  // the answer's first token is already reasoning
  // These are only found at the beginning of the answer, after whitespace.
  std::vector<std::string> begins;
  std::vector<std::string> ends;          // at least one
  std::vector<TokenId> forced_token_ids;  // at least one; their text ends the reasoning
};

}  // namespace quire
