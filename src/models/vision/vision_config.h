// From a multimodal checkpoint's files to its VisionSpec.
#pragma once

#include <optional>

#include "base/result.h"
#include "models/vision/vision_spec.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {

// nullopt: the model takes text alone, or images in a way that is not known here. `hidden_size`: of
// the language model. Errors name the file and the key.
Result<std::optional<VisionSpec>> read_vision(const ModelFiles& files, int64_t hidden_size);

// The reader behind it. `preprocessor`: preprocessor_config.json, or empty.
Result<std::optional<VisionSpec>> parse_vision(std::string_view config,
                                               std::string_view preprocessor, int64_t hidden_size);

// No picture has more than so many embeddings; 0: no bound of its own. kInvalidArgument: even the
// smallest has more.
Status limit_image_tokens(int32_t max_tokens, VisionSpec& vision);

// Whether a checkpoint has a tower. A language model may have been taken out of one that had, whose
// config.json it keeps.
bool has_tower(const TensorSource& source);

// The tensors of the tower and its projector, under the names of VisionSpec::names, each as the
// matrix that it is used as: the convolution that reads patches has a row per output.
TensorSource vision_tensors(const VisionSpec& vision, const TensorSource& source);

}  // namespace quire
