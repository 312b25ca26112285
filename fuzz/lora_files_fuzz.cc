// The input is the adapter_config.json of a PEFT adapter, a zero byte, and its tensors as
// safetensors: the result is an adapter whose modules fit together, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "weights/adapters/lora_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const void* end = size == 0 ? nullptr : std::memchr(data, 0, size);
  const size_t config_size =
      end == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(end) - data);
  const auto tensors = end == nullptr ? bytes.subspan(size) : bytes.subspan(config_size + 1);
  const auto adapter = quire::LoraFiles::read(quire::ModelFiles::from_memory(
      {{"adapter_config.json", bytes.first(config_size)}, {"adapter_model.safetensors", tensors}}));
  if (!adapter.ok()) return 0;
  for (const quire::LoraModule& module : adapter->modules()) {
    const int64_t ranks = module.rank * module.num_experts;
    if (module.a->num_elements() != ranks * module.num_inputs()) std::abort();
    if (module.b->num_elements() != ranks * module.num_outputs()) std::abort();
  }
  return 0;
}
