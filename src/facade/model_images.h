// The image input of a running model.
#pragma once

#include <memory>

#include "base/result.h"
#include "facade/model_bundle.h"
#include "media/image_input.h"

namespace quire {

// Returns null if the model reads no images, or not on its device. Errors are those of its
// preprocessor configuration.
Result<std::shared_ptr<const ImageInput>> image_input_of(const RunningModel& running,
                                                         const ImageInputOptions& options);

}  // namespace quire
