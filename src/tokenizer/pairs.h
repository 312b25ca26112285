// A pair of texts becomes one sequence, as rerankers read it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace quire {

// The post-processor puts this around and between two texts.
struct PairTemplate {
  std::vector<TokenId> prefix_ids;
  std::vector<TokenId> middle_ids;
  std::vector<TokenId> suffix_ids;
  bool second_has_type_1 = false;  // the second text and what follows it
};

struct EncodedPair {
  std::vector<TokenId> ids;
  int32_t first_type_1_token = -1;  // tokens from here on are of type 1; -1: all are of type 0
};

}  // namespace quire
