// These functions read a SpeechSpec from a checkpoint's files.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "models/speech/speech_spec.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

// nullopt: the model hears nothing. Errors name the file and the key.
Result<std::optional<SpeechSpec>> read_speech(const ModelFiles& files);

// Is the reader of config.json behind it.
Result<std::optional<SpeechSpec>> parse_speech(std::string_view config);

// Which heads say what a token is about (`alignment_heads` of generation_config.json), and how that is
// smoothed, into the decoder's spec. Without such a list there are none.
Status read_alignment(const ModelFiles& files, DecoderSpec& decoder);
// Is the reader behind it. `generation` is generation_config.json, or empty.
Status parse_alignment(std::string_view config, std::string_view generation, DecoderSpec& decoder);

// Returns the tensors of the encoder under the names of SpeechSpec::names, convolutions with a row
// per output.
TensorSource speech_tensors(const TensorSource& source);

}  // namespace quire
