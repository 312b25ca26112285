// The input is the adapter_config.json of a PEFT adapter, a zero byte, and its tensors as
// safetensors. The result must be an adapter whose modules fit together, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "two_parts.h"
#include "weights/adapters/lora_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TwoParts parts = two_parts(data, size);
  const auto adapter = quire::LoraFiles::read(quire::ModelFiles::from_memory(
      {{"adapter_config.json", parts.first}, {"adapter_model.safetensors", parts.second}}));
  if (!adapter.ok()) return 0;
  for (const quire::LoraModule& module : adapter->modules()) {
    const int64_t ranks = module.rank * module.num_experts;
    if (module.a->num_elements() != ranks * module.num_inputs()) std::abort();
    if (module.b->num_elements() != ranks * module.num_outputs()) std::abort();
  }
  return 0;
}
