// These functions read a VisionSpec from a multimodal checkpoint's files.
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

// Returns nullopt where the model takes text alone, or images in a way that is not known here.
// `hidden_size` is that of the language model. Errors name the file and the key.
Result<std::optional<VisionSpec>> read_vision(const ModelFiles& files, int64_t hidden_size);

// Reads the tower of a model in a .gguf file, which lies in the files' mmproj_name(). It fails where the
// tower does not fit the language model.
Result<VisionSpec> read_mmproj_vision(const ModelFiles& files);
// Is the reader behind it. Errors begin with the file's `name`; `model` holds the language model.
Result<VisionSpec> parse_mmproj(const std::string& name, const GgufFile& mmproj,
                                const GgufFile& model);

// Returns preprocessor_config.json, or what an mmproj file says in its words; empty where neither is.
Result<std::string> read_preprocessor(const ModelFiles& files);

// Is the reader behind read_vision(). `preprocessor` is preprocessor_config.json, or empty.
Result<std::optional<VisionSpec>> parse_vision(std::string_view config,
                                               std::string_view preprocessor, int64_t hidden_size);

// Sees to it that no picture has more than so many embeddings; 0 sets no bound. kInvalidArgument:
// even the smallest has more.
Status limit_image_tokens(int32_t max_tokens, VisionSpec& vision);

// Returns the layers of both encoders of a tower whose rows are a source (CanvasSpec), as one, for
// whoever counts them.
DecoderSpec source_encoder(const VisionSpec& vision);

// Whether a checkpoint has a tower. A language model may have been taken out of one that had, whose
// config.json it keeps.
bool has_tower(const ModelFiles& files, const TensorSource& model);

// Returns the tensors of the tower and its projector, under the names of VisionSpec::names, each as
// the matrix that it is used as: the convolution that reads patches has a row per output. `model`
// has those of the checkpoint, the tower's among them unless they lie in an mmproj file.
Result<TowerTensors> tower_tensors(const VisionSpec& vision, const ModelFiles& files,
                                   const TensorSource& model);

}  // namespace quire
