// GpuAdapters holds the adapters of a model on a GPU. Each that is loaded has a slot; a table on
// the device says where the updates of every slot lie, and each step says which row has which slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/adapter.h"
#include "device/device.h"
#include "exec/gpu/adapters/adapter_memory.h"
#include "exec/loaded_adapter.h"
#include "exec/model_plan.h"
#include "nn/adapters/lora_batch.h"
#include "nn/adapters/lora_table.h"
#include "nn/weights/decoder_weights.h"
#include "tensor/arena.h"

namespace quire {

// Any thread may call load(); the rest is called on the runner's thread, whose steps have host
// buffers that take turns.
class GpuAdapters {
 public:
  // Returns what it takes beside MemoryPlan::adapters, which is nothing without adapters.
  static int64_t device_bytes(const ModelRunnerOptions& options, const DecoderWeights& weights,
                              int64_t max_tokens);

  // It is made of these, which it borrows: a model with ModelRunnerOptions::max_adapters.
  struct Model {
    const ModelRunnerOptions& options;
    const ModelPlan& plan;
    const DecoderWeights& weights;
    Device& device;
    size_t num_staged = 2;  // host buffers, of steps that take turns
  };
  static Result<std::unique_ptr<GpuAdapters>> create(const Model& model);

  // As Executor::load_adapter(). The files are read and brought to the device while steps run, and
  // the adapter's memory is free again when the last request has let it go.
  Result<std::shared_ptr<const Adapter>> load(const std::string& name, const std::string& path);

  // Queues which rows of the step have which adapter. `num_tokens` counts rows that stand for
  // nobody, too. The pointers are the same for every step. `turn` says which of the host buffers is
  // the step's.
  LoraSlots place(size_t turn, std::span<const LoraRows> adapters, int64_t num_tokens);

 private:
  explicit GpuAdapters(const Model& model);
  Status allocate();
  // Makes the table's row of a slot.
  Result<std::vector<LoraPart>> table_row(const LoadedAdapter& adapter,
                                          const std::string& path) const;

  const Model model_;
  const LoraTable table_;
  int64_t max_tokens_;
  std::shared_ptr<AdaptersInUse> in_use_ = std::make_shared<AdaptersInUse>();
  std::shared_ptr<AdapterMemory> places_;  // shared with the adapters, which may outlive this
  Arena memory_;
  std::byte* weights_ = nullptr;  // [MemoryPlan::adapters]
  LoraPart* parts_ = nullptr;     // [max_adapters, table_.slot_stride()]
  int32_t* rows_ = nullptr;       // [2, max_tokens]: LoraSlots::slots and order
  Arena pinned_;
  std::vector<int32_t*> staged_;  // pinned, as rows_
  std::mutex copying_;
  std::unique_ptr<CopyQueue> copies_;
};

}  // namespace quire
