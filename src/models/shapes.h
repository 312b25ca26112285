// The sizes of well-known models, for measuring speed without their weights.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "models/model_config.h"

namespace quire {

// Returns the shape `name`, such as "llama-3.2-1b", or reads that of a config.json (a path that
// ends with .json), without its quantization. kInvalidArgument lists the known names. kNotFound:
// the file cannot be read.
Result<ModelConfig> model_shape(std::string_view name);

std::string known_model_shapes();  // "llama-3.2-1b, …"

}  // namespace quire
