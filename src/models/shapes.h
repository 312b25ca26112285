// Shapes of well-known models, for measuring speed without their weights.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "models/model_config.h"

namespace quire {

// "llama-3.2-1b", …; kInvalidArgument lists the known ones.
Result<ModelConfig> model_shape(std::string_view name);

std::string known_model_shapes();  // "llama-3.2-1b, …"

}  // namespace quire
