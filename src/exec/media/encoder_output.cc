#include "exec/media/encoder_output.h"

#include <algorithm>
#include <cmath>

namespace quire {

Status check_encoder_output(std::string_view item, std::span<const float> values) {
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return {};
  return invalid_argument(
      "{}: expected finite values as the output of the model's encoder, got NaN or infinity", item);
}

}  // namespace quire
