#include "exec/loaded_adapter.h"

#include "models/family.h"
#include "weights/adapters/lora_files.h"

namespace quire {

Result<std::shared_ptr<LoadedAdapter>> read_adapter(const std::string& name,
                                                    const std::string& path,
                                                    const AdapterReading& reading) {
  const ModelRunnerOptions& options = reading.options;
  const ModelPlan& plan = reading.plan;
  if (options.max_adapters == 0)
    return unimplemented("adapters: expected --enable-lora, without which there are none");
  AdapterSlot slot = AdapterSlot::take(reading.in_use, options.max_adapters);
  if (slot.is_empty()) {
    return resource_exhausted("adapters: {} are loaded or still in use, at most {} fit",
                              options.max_adapters, options.max_adapters);
  }
  QUIRE_ASSIGN_OR_RETURN(const LoraFiles files, LoraFiles::open(path));
  if (files.max_rank() > options.max_lora_rank) {
    return invalid_argument("{}: expected ranks of at most {} (--max-lora-rank), got {}", path,
                            options.max_lora_rank, files.max_rank());
  }
  const Family& family = *plan.config.family;
  const bool is_gguf = plan.config.format == CheckpointFormat::kGguf;
  LoraOptions lora = reading.lora;
  lora.dtype = plan.dtype;
  lora.compute = plan.compute;
  lora.pairs_rows = is_gguf && family.gguf_rope_style != family.rope_style;
  lora.max_bytes = plan.memory.adapters - reading.in_use->num_bytes;
  QUIRE_ASSIGN_OR_RETURN(LoraWeights weights,
                         LoraWeights::load(files, reading.weights, family.hf_names, lora));
  if (!slot.take_bytes(weights.num_bytes(), plan.memory.adapters)) {
    return resource_exhausted("{}: the adapter takes {} MiB, more than is left of --lora-memory",
                              path, (weights.num_bytes() >> 20) + 1);
  }
  auto adapter = std::make_shared<LoadedAdapter>(std::move(slot), std::move(weights));
  adapter->name = name;
  adapter->content_key = files.digest();
  return adapter;
}

}  // namespace quire
