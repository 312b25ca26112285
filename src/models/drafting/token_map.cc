#include "models/drafting/token_map.h"

#include <fmt/ranges.h>

#include <cstring>

namespace quire {
namespace {

template <typename Integer>
int64_t integer_at(const RawTensor& tensor, int64_t index) {
  Integer value;
  std::memcpy(&value, tensor.data.data() + static_cast<size_t>(index) * sizeof(value),
              sizeof(value));
  return value;
}

}  // namespace

Result<std::vector<TokenId>> read_token_map(const RawTensor& tensor, int64_t num_rows,
                                            int64_t vocab_size, bool are_offsets) {
  const bool is_wide = tensor.type_name == "I64";
  if ((!is_wide && tensor.type_name != "I32") || tensor.shape != std::vector<int64_t>{num_rows}) {
    return invalid_argument("tensor '{}': expected I64 or I32 [{}], got {} [{}]", tensor.name,
                            num_rows, tensor.type_name, fmt::join(tensor.shape, ", "));
  }
  std::vector<TokenId> map;
  std::vector<bool> is_known(static_cast<size_t>(vocab_size));
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t value =
        is_wide ? integer_at<int64_t>(tensor, row) : integer_at<int32_t>(tensor, row);
    // Adding the row's index to an offset beyond any vocabulary must not overflow.
    const bool is_sane = value > -(int64_t{1} << 32) && value < int64_t{1} << 32;
    const int64_t token = is_sane && are_offsets ? value + row : value;
    if (!is_sane || token < 0 || token >= vocab_size || is_known[static_cast<size_t>(token)]) {
      return invalid_argument(
          "tensor '{}': row {}: expected a token in [0, {}) that no row before has, got {}",
          tensor.name, row, vocab_size, token);
    }
    is_known[static_cast<size_t>(token)] = true;
    map.push_back(static_cast<TokenId>(token));
  }
  return map;
}

}  // namespace quire
