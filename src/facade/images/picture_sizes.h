// How many embeddings a model makes of a picture, by what its files say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

// Returns the size of each item that is encoded of one picture of width x height pixels; a server
// cuts it likewise. `model` is what read_model_shape() takes. kInvalidArgument: the model reads no
// pictures in the places of tokens, or none of that shape.
Result<std::vector<int32_t>> picture_items(const std::string& model, int32_t width, int32_t height);

}  // namespace quire
