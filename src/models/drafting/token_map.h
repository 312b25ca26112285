// Which tokens a head knows, where it does not know all.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "weights/tensors/raw_tensor.h"

namespace quire {

// Of integers [n], n as expected: the token of each row is the row's value, with `are_offsets` plus
// the row. kInvalidArgument: other integers, or a token outside [0, vocab_size), or twice the same.
Result<std::vector<TokenId>> read_token_map(const RawTensor& tensor, int64_t num_rows,
                                            int64_t vocab_size, bool are_offsets);

}  // namespace quire
