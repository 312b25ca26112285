// Shapes of well-known models, for measuring speed without their weights.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "models/model_config.h"

namespace quire {

// `name` is "llama-3.2-1b" and the like, or the path of a config.json (NAME.json), whose
// quantization is not looked at. kInvalidArgument lists the known ones. kNotFound: the file cannot
// be read.
Result<ModelConfig> model_shape(std::string_view name);

std::string known_model_shapes();  // "llama-3.2-1b, …"

}  // namespace quire
