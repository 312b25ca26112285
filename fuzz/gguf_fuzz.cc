// The input is a GGUF file. The result must be an error, or tensors that all lie inside the file.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "weights/gguf/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = quire::GgufFile::parse("input", bytes);
  if (!file.ok()) return 0;
  for (const quire::RawTensor& tensor : file->tensors()) {
    if (tensor.num_elements() < 0) std::abort();
    if (tensor.data.data() < bytes.data() ||
        tensor.data.data() + tensor.data.size() > bytes.data() + bytes.size()) {
      std::abort();
    }
  }
  for (const auto& [key, value] : file->metadata()) {
    static_cast<void>(value.as_ints());
    static_cast<void>(value.as_floats());
    static_cast<void>(value.as_strings());
  }
  return 0;
}
