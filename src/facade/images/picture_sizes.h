// Computes how many embeddings a model makes of a picture, from the model's files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

// Returns the size of each item that is encoded for one picture of width x height pixels, cut as a
// server cuts it. `model` is a path for read_model_shape(). kInvalidArgument: the model reads no
// pictures in place of tokens, or none of that shape.
Result<std::vector<int32_t>> picture_items(const std::string& model, int32_t width, int32_t height);

}  // namespace quire
