// The input is the URL of an image.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "media/image_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view url(reinterpret_cast<const char*>(data), size);
  (void)quire::read_image_source(url, "", 1 << 12);
  (void)quire::read_image_source(url, "/nowhere/at/all", 1 << 12);
  return 0;
}
