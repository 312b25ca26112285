// GpuAdapters holds the adapters of a model on a GPU. Each loaded adapter has a slot; a table on
// the device stores where the updates of every slot lie, and each step sends the slot of every row.
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

// Any thread may call load(); everything else is called on the runner's thread. Consecutive steps
// use the host buffers in turn.
class GpuAdapters {
 public:
  // Returns the device memory that it needs beside MemoryPlan::adapters; 0 without adapters.
  static int64_t device_bytes(const ModelRunnerOptions& options, const DecoderWeights& weights,
                              int64_t max_tokens);

  // What create() borrows: a model with ModelRunnerOptions::max_adapters above 0, and its device.
  struct Model {
    const ModelRunnerOptions& options;
    const ModelPlan& plan;
    const DecoderWeights& weights;
    Device& device;
    size_t num_staged = 2;  // host buffers, of steps that take turns
  };
  static Result<std::unique_ptr<GpuAdapters>> create(const Model& model);

  // As Executor::load_adapter(). The files are read and copied to the device while steps run. The
  // adapter's memory is free again when the last request has released it.
  Result<std::shared_ptr<const Adapter>> load(const std::string& name, const std::string& path);

  // Queues the copy that tells the device which rows of the step use which adapter. `num_tokens`
  // includes padding rows. The returned pointers are the same for every step. `turn` selects the
  // host buffer of the step.
  LoraSlots place(size_t turn, std::span<const LoraRows> adapters, int64_t num_tokens);

 private:
  explicit GpuAdapters(const Model& model);
  Status allocate();
  // Returns the row of the device's table for the adapter's slot.
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
