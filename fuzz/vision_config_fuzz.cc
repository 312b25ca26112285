// The input is the config.json and preprocessor_config.json of a model that reads images, with a
// zero byte between them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "media/image_processor.h"
#include "models/vision/vision_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\0'), text.size());
  const std::string_view config = text.substr(0, end);
  const std::string_view preprocessor = text.substr(std::min(end + 1, text.size()));
  (void)quire::parse_vision(config, preprocessor, 32);
  using enum quire::PictureFit;
  for (const quire::PictureFit fit :
       {kMiddle, kStretched, kBestGrid, kNearestRatio, kLongestEdge, kBestCanvas}) {
    (void)quire::parse_image_processor(
        preprocessor,
        {.fit = fit, .image_size = 30, .num_embeddings = 25, .grids = {{1, 1}, {2, 1}}});
  }
  for (const quire::PictureFit fit : {kNearest, kRoundedUp, kMostCells}) {
    (void)quire::parse_image_processor(preprocessor,
                                       {.fit = fit, .cell_size = 28, .max_cells = 64});
  }
  return 0;
}
