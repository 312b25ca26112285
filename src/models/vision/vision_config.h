// From a multimodal checkpoint's files to its VisionSpec.
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

// nullopt: the model takes text alone, or images in a way that is not known here. `hidden_size`: of
// the language model. Errors name the file and the key.
Result<std::optional<VisionSpec>> read_vision(const ModelFiles& files, int64_t hidden_size);

// Reads the tower of a model in a .gguf file, which lies in the files' mmproj_name(). It fails where the
// tower does not fit the language model.
Result<VisionSpec> read_mmproj_vision(const ModelFiles& files);
// Is the reader behind it. Errors begin with the file's `name`; `model` holds the language model.
Result<VisionSpec> parse_mmproj(const std::string& name, const GgufFile& mmproj,
                                const GgufFile& model);

// Returns preprocessor_config.json, or what an mmproj file says in its words; empty where neither is.
Result<std::string> read_preprocessor(const ModelFiles& files);

// The reader behind read_vision(). `preprocessor`: preprocessor_config.json, or empty.
Result<std::optional<VisionSpec>> parse_vision(std::string_view config,
                                               std::string_view preprocessor, int64_t hidden_size);

// No picture has more than so many embeddings; 0: no bound of its own. kInvalidArgument: even the
// smallest has more.
Status limit_image_tokens(int32_t max_tokens, VisionSpec& vision);

// The layers of both encoders of a tower whose rows are a source (CanvasSpec), as one: for whoever counts
// them.
DecoderSpec source_encoder(const VisionSpec& vision);

// Whether a checkpoint has a tower. A language model may have been taken out of one that had, whose
// config.json it keeps.
bool has_tower(const ModelFiles& files, const TensorSource& model);

// The tensors of the tower and its projector, under the names of VisionSpec::names, each as the
// matrix that it is used as: the convolution that reads patches has a row per output. `model`: those of
// the checkpoint, which has them too unless they lie in an mmproj file.
Result<TowerTensors> tower_tensors(const VisionSpec& vision, const ModelFiles& files,
                                   const TensorSource& model);

}  // namespace quire
