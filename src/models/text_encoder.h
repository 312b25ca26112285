// What reads the sources of a decoder, where they are texts (Family::text_encoder).
#pragma once

#include "base/result.h"
#include "models/model_config.h"
#include "weights/files/model_files.h"

namespace quire {

// The encoder of the model whose decoder `config` is. Errors name the file and the key.
Result<ModelConfig> read_text_encoder(const ModelFiles& files, const ModelConfig& config);

}  // namespace quire
