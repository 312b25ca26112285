// The input is a safetensors file, and also a shard index. The result must be tensors, or an index,
// or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "weights/files/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto tensors = quire::parse_safetensors("input", bytes);
  if (tensors.ok()) {
    for (const quire::RawTensor& tensor : *tensors) {
      if (tensor.num_elements() < 0) std::abort();
      if (tensor.data.data() < bytes.data() ||
          tensor.data.data() + tensor.data.size() > bytes.data() + bytes.size()) {
        std::abort();
      }
    }
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(quire::parse_safetensors_index(text).ok());
  return 0;
}
