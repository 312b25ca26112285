// These structs describe how two texts become one sequence, as rerankers read it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// A PairTemplate holds the ids that the post-processor puts around and between two texts.
struct PairTemplate {
  std::vector<TokenId> prefix_ids;
  std::vector<TokenId> middle_ids;
  std::vector<TokenId> suffix_ids;
  bool second_has_type_1 = false;  // whether the second text and the ids behind it have type 1
};

struct EncodedPair {
  std::vector<TokenId> ids;
  int32_t first_type_1_token = -1;  // tokens from here on have type 1; -1 if all have type 0
};

}  // namespace quire
