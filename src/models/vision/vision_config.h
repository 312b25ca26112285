// Reads a VisionSpec from the files of a multimodal checkpoint.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "models/vision/mmproj.h"
#include "models/vision/vision_spec.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

// Returns nullopt if the model reads only text, or if Quire does not support the way in which it
// reads images. `hidden_size` is that of the language model. Errors name the file and the key.
Result<std::optional<VisionSpec>> read_vision(const ModelFiles& files, int64_t hidden_size);

// Reads the tower of a model in a .gguf file from the files' mmproj_name(). Fails if the tower does
// not fit the language model.
Result<VisionSpec> read_mmproj_vision(const ModelFiles& files);
// The part of read_mmproj_vision() that reads opened files. Errors begin with the file's `name`;
// `model` holds the language model.
Result<VisionSpec> parse_mmproj(const std::string& name, const GgufFile& mmproj,
                                const GgufFile& model);

// Returns preprocessor_config.json, or the same translated from an mmproj file, or an empty text if
// there is neither.
Result<std::string> read_preprocessor(const ModelFiles& files);

// The part of read_vision() that reads texts. `preprocessor` is preprocessor_config.json, or empty.
Result<std::optional<VisionSpec>> parse_vision(std::string_view config,
                                               std::string_view preprocessor, int64_t hidden_size);

// Limits the embeddings of a picture to `max_tokens`; 0: no limit. kInvalidArgument: even the
// smallest picture has more.
Status limit_image_tokens(int32_t max_tokens, VisionSpec& vision);

// Returns the layers of both encoders of a tower whose rows are a source (CanvasSpec), as one spec,
// for code that counts layers.
DecoderSpec source_encoder(const VisionSpec& vision);

// Returns whether a checkpoint has a tower. The config.json of a language model that was extracted
// from a multimodal model may still describe one.
bool has_tower(const ModelFiles& files, const TensorSource& model);

// Returns the tensors of the tower and its projector, under the names of VisionSpec::names, each
// reshaped to the matrix that it is used as: the convolution over patches has a row per output.
// `model` has the checkpoint's tensors, including the tower's unless these lie in an mmproj file.
Result<TowerTensors> tower_tensors(const VisionSpec& vision, const ModelFiles& files,
                                   const TensorSource& model);

}  // namespace quire
