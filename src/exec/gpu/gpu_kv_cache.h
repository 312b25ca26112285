// The KV cache of a GPU has the pools of blocks, what evicted blocks leave of it in host memory,
// and the copies of blocks that steps ask for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "core/kv_files.h"
#include "core/step.h"
#include "device/device.h"
#include "exec/gpu/gpu_step_inputs.h"
#include "exec/kv_layout.h"
#include "nn/decoder/decoder.h"
#include "tensor/arena.h"

namespace quire {

// One thread. As GpuStepInputs: host buffers of `num_staged` steps, which take turns.
class GpuKvCache {
 public:
  // Returns what it takes beside the pools, for lists of blocks and for scales of an e4m3 cache.
  static int64_t device_bytes(const KvLayout& layout);
  static int64_t pinned_bytes(int32_t num_staged);

  // Borrows the layout and the device. Queues the upload of the layout's scales.
  GpuKvCache(const KvLayout& layout, int32_t num_staged, Device& device, Arena& device_memory,
             Arena& pinned);

  // Is called once, before anything below.
  Status initialize(const KvPlan& plan);
  bool is_initialized() const { return is_initialized_; }
  const KvPlan& plan() const { return plan_; }
  // By group, how many blocks its pool has.
  std::vector<int32_t> group_blocks() const;
  // Returns one cache per layer, for Decoder::bind_cache().
  std::vector<LayerCache> layer_caches() const;
  std::vector<StateView> state_views() const;
  // Returns the blocks of pinned memory, with the strips of the layout; `data` is null where there
  // are none.
  HostBlocks host_blocks(KvPool pool) const;

  // Says what the step under way has: the block tables of its requests, by group, beside the blocks
  // that it copied. What no table has since forget_blocks_in_use(), nothing under way reads or writes.
  void forget_blocks_in_use();
  void note_all_blocks_in_use();
  void note_blocks_in_use(const std::vector<std::vector<int32_t>>& block_tables);
  // Queues the copies to and from host memory, before what is queued on the device next. They run
  // beside the step under way, but for blocks that it has: those wait for its end. kInternal: a block
  // that is not there.
  Status copy_to_and_from_host(const std::vector<HostBlockCopy>& copies);
  // Queues the copies on the device. `turn` is the step's number modulo num_staged. Every step
  // calls it, also without any copies.
  Status copy_blocks(size_t turn, const std::vector<BlockCopy>& copies);

 private:
  Status allocate_pool(KvPool pool);
  Status allocate_host(KvPool pool);
  Status copy_blocks(size_t turn, const std::vector<BlockCopy>& copies, KvPool pool);
  Status check(const std::vector<HostBlockCopy>& copies) const;
  bool is_in_use(BlockId block, KvPool pool) const;

  const KvLayout& layout_;
  Device& device_;
  KvPlan plan_;
  bool is_initialized_ = false;
  std::array<Arena, kNumKvPools> memory_;  // by KvPool
  std::array<void*, kNumKvPools> pools_ = {};
  std::array<Arena, kNumKvPools> host_memory_;  // pinned
  std::array<std::byte*, kNumKvPools> host_pools_ = {};
  std::unique_ptr<CopyStream> copy_stream_;                 // where there is host memory
  std::array<std::vector<bool>, kNumKvPools> in_use_ = {};  // by block; empty without host memory
  std::vector<BlockCopy> last_copies_;                      // of the newest step
  // Both hold [2, kCopiesAtOnce] per KvPool: the pinned ones by steps, which take turns, and the
  // device's.
  std::vector<std::array<int32_t*, kNumKvPools>> lists_;
  std::array<int32_t*, kNumKvPools> lists_on_device_;
  float* scales_ = nullptr;  // e4m3: keys' and values', [2, layers, Hkv]
};

}  // namespace quire
