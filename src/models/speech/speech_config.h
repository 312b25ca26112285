// From a checkpoint's files to its SpeechSpec.
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

// The reader behind it. `config`: config.json.
Result<std::optional<SpeechSpec>> parse_speech(std::string_view config);

// The tensors of the encoder under the names of SpeechSpec::names, convolutions with a row per output.
TensorSource speech_tensors(const TensorSource& source);

}  // namespace quire
