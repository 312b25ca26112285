// Reads which tokens a reduced head covers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "weights/tensors/raw_tensor.h"

namespace quire {

// Reads integers [n], where n must be num_rows. The token of each row is the row's value, plus the
// row's index with `are_offsets`. kInvalidArgument: another number of integers, a token outside [0,
// vocab_size), or one that comes twice.
Result<std::vector<TokenId>> read_token_map(const RawTensor& tensor, int64_t num_rows,
                                            int64_t vocab_size, bool are_offsets);

}  // namespace quire
