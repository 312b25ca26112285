// The input is an mmproj file that also contains the metadata of its language model. The result
// must be a tower or an error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/vision/vision_config.h"
#include "weights/gguf/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = quire::GgufFile::parse("input", std::as_bytes(std::span(data, size)));
  if (!file.ok()) return 0;
  (void)quire::mmproj_tensors(*file);
  (void)quire::parse_mmproj("input", *file, *file);
  return 0;
}
