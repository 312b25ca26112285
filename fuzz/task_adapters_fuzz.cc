// The input is the config.json of a model with adapters for tasks, a zero byte, and its tensors as
// safetensors. Each task must be an adapter whose modules fit together, or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "two_parts.h"
#include "weights/adapters/task_adapters.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TwoParts parts = two_parts(data, size);
  const auto files = [&] {
    return quire::ModelFiles::from_memory(
        {{"config.json", parts.first}, {"model.safetensors", parts.second}});
  };
  const auto tasks = quire::read_task_adapters(files());
  if (!tasks.ok()) return 0;
  for (const std::string& task : tasks->names) {
    const auto adapter = quire::read_task_adapter(files(), task);
    if (!adapter.ok()) continue;
    for (const quire::LoraModule& module : adapter->modules()) {
      if (module.a->num_elements() != module.rank * module.num_inputs()) std::abort();
      if (module.b->num_elements() != module.rank * module.num_outputs()) std::abort();
    }
  }
  return 0;
}
