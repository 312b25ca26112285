// The check that every encoder's output passes before a request may use it.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace quire {

// Weights that are damaged, or too narrow a type, can give NaN or infinity. kInvalidArgument, in
// words about `item` ("image", "recording"), if there is one among the values.
Status check_encoder_output(std::string_view item, std::span<const float> values);

}  // namespace quire
