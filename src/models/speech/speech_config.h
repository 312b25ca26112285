// Reads a SpeechSpec from a checkpoint's files.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "models/speech/speech_spec.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

// Returns nullopt if the model does not hear. Errors name the file and the key.
Result<std::optional<SpeechSpec>> read_speech(const ModelFiles& files);

// The part of read_speech() that reads the text of config.json.
Result<std::optional<SpeechSpec>> parse_speech(std::string_view config);

// Reads into the decoder's spec which heads tell what a token is about (`alignment_heads` of
// generation_config.json) and how their attention is smoothed. Without that key there are none.
Status read_alignment(const ModelFiles& files, DecoderSpec& decoder);
// The part of read_alignment() that reads the texts; `generation` is generation_config.json, or
// empty.
Status parse_alignment(std::string_view config, std::string_view generation, DecoderSpec& decoder);

// Returns the tensors of the encoder under the names of SpeechSpec::names, with convolutions
// reshaped to a row per output.
TensorSource speech_tensors(const TensorSource& source);

}  // namespace quire
