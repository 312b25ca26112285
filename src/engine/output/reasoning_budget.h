// How long a model may reason before it answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace quire {

// Tokens that come while the text holds one of `begins` and none of `ends` behind it are counted;
// after `max_tokens` of them `forced_token_ids` come, whatever the model would have said.
struct ReasoningBudget {
  int32_t max_tokens = 0;                 // 0: the model does not reason
  bool begins_inside = false;             // the answer's first token is reasoning already
  std::vector<std::string> begins;        // only at the beginning of the answer, behind blanks
  std::vector<std::string> ends;          // at least one
  std::vector<TokenId> forced_token_ids;  // at least one; their text ends the reasoning
};

}  // namespace quire
