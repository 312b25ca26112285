#include "facade/images/picture_sizes.h"

#include <filesystem>
#include <optional>

#include "media/image_layout.h"
#include "models/model_config.h"
#include "models/vision/vision_config.h"
#include "weights/files/model_files.h"
#include "weights/files/tensor_source.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

Result<ModelFiles> open_description(const std::string& model) {
  const fs::path path = fs::path(model).lexically_normal();
  if (path.filename() == "config.json")
    return ModelFiles::open_folder(path.has_parent_path() ? path.parent_path().string() : ".");
  return ModelFiles::open(model);
}

// Weights are not needed: a folder may have only config.json.
Result<int64_t> hidden_size_of(const ModelFiles& files) {
  if (files.gguf_name()) {
    QUIRE_ASSIGN_OR_RETURN(const TensorSource source, TensorSource::open(files));
    QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(files, source));
    return config.hidden_size;
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
  QUIRE_ASSIGN_OR_RETURN(const ModelConfig config, parse_model_config(text));
  return config.hidden_size;
}

}  // namespace

Result<std::vector<int32_t>> picture_items(const std::string& model, int32_t width,
                                           int32_t height) {
  QUIRE_ASSIGN_OR_RETURN(const ModelFiles files, open_description(model));
  QUIRE_ASSIGN_OR_RETURN(const int64_t hidden_size, hidden_size_of(files));
  QUIRE_ASSIGN_OR_RETURN(const std::optional<VisionSpec> vision, read_vision(files, hidden_size));
  if (!vision || vision->canvas.any())
    return invalid_argument("{}: expected a model that reads pictures as tokens", model);
  QUIRE_ASSIGN_OR_RETURN(const std::string preprocessor, read_preprocessor(files));
  QUIRE_ASSIGN_OR_RETURN(const ImageProcessorSpec spec,
                         parse_image_processor(preprocessor, vision->shape()));
  Image blank{.width = width, .height = height};
  blank.rgb.resize(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  QUIRE_ASSIGN_OR_RETURN(const InputImage image, lay_out_image(blank, spec, vision->text));
  std::vector<int32_t> items;
  const MediaItem* before = nullptr;  // the places of one item follow each other
  for (const ImagePlace& place : image.places) {
    if (place.item.get() != before) items.push_back(place.item->num_embeddings);
    before = place.item.get();
  }
  return items;
}

}  // namespace quire
