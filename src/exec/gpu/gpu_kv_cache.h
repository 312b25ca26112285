// The KV cache of a GPU: the pool, what evicted blocks leave of it in host memory, and the copies
// of blocks that steps ask for.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "core/step.h"
#include "device/device.h"
#include "exec/kv_layout.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// One thread. As GpuStepInputs: two steps' host buffers, which alternate.
class GpuKvCache {
 public:
  // Beside the pool: lists of blocks, scales of an e4m3 cache.
  static int64_t device_bytes(const KvLayout& layout);
  static int64_t pinned_bytes();

  // Borrows the layout and the device. Queues the upload of the layout's scales.
  GpuKvCache(const KvLayout& layout, Device& device, Arena& device_memory, Arena& pinned);

  // Once, before anything below.
  Status initialize(const KvPlan& plan);
  HostBlocks host_blocks() const {
    return {host_pool_, layout_.spec.block_bytes, num_host_blocks_};
  }
  int32_t num_blocks() const { return num_blocks_; }  // 0: not initialized
  // One per layer, for Decoder::bind_cache().
  std::vector<LayerCache> layer_caches() const;

  // Queues the copies to and from host memory. kInternal: a block that is not there.
  Status copy_to_and_from_host(const std::vector<HostBlockCopy>& copies);
  // Queues the copies on the device, of a step whose number has that parity.
  Status copy_blocks(size_t parity, const std::vector<BlockCopy>& copies);

 private:
  const KvLayout& layout_;
  Device& device_;
  Arena memory_;
  Arena host_memory_;  // pinned
  void* pool_ = nullptr;
  std::byte* host_pool_ = nullptr;
  int32_t num_blocks_ = 0;
  int32_t num_host_blocks_ = 0;
  std::vector<int32_t*> lists_;  // pinned [2, kCopiesAtOnce], of steps that alternate
  int32_t* list_on_device_;
  float* scales_ = nullptr;  // e4m3: keys' and values', [2, layers, Hkv]
};

}  // namespace quire
