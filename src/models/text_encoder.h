// Reads the encoder of a decoder whose sources are texts (Family::text_encoder).
#pragma once

#include <string_view>

#include "base/result.h"
#include "models/model_config.h"

namespace quire {

// Reads the encoder that belongs to the decoder `config`. `text` is config.json. Errors name the
// key.
Result<ModelConfig> parse_text_encoder(std::string_view text, const ModelConfig& config);
// Reads the same from a folder or a GGUF file.
Result<ModelConfig> read_text_encoder(const ModelFiles& files, const ModelConfig& config);

}  // namespace quire
