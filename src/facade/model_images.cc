#include "facade/model_images.h"

#include <optional>
#include <string_view>

#include "base/log.h"
#include "models/vision/vision_config.h"

namespace quire {

Result<std::shared_ptr<const ImageInput>> image_input_of(const RunningModel& running,
                                                         const ImageInputOptions& options) {
  if (running.bundle.files == nullptr) return std::shared_ptr<const ImageInput>();
  const ModelFiles& files = *running.bundle.files;
  const std::optional<VisionSpec>& vision = running.plan.vision;
  if (!vision) {
    const Result<TensorSource> source = TensorSource::open(files);
    if (!source.ok() || !has_tower(files, *source)) return std::shared_ptr<const ImageInput>();
    QUIRE_ASSIGN_OR_RETURN(const std::optional<VisionSpec> of_files,
                           read_vision(files, running.plan.spec.hidden_size));
    if (of_files) {
      log_warn(
          "{} reads images, but only on the CPU (--device cpu), and with cross-attention only "
          "in one rank: requests with images are refused",
          running.bundle.name);
    }
    return std::shared_ptr<const ImageInput>();
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string preprocessor, read_preprocessor(files));
  QUIRE_ASSIGN_OR_RETURN(const ImageProcessorSpec spec,
                         parse_image_processor(preprocessor, vision->shape()));
  return std::make_shared<const ImageInput>(spec, vision->placeholder, options, vision->text);
}

}  // namespace quire
