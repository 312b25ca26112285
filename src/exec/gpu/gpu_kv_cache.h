// GpuKvCache owns the pools of KV blocks on a GPU and the pinned host memory for blocks that are
// evicted from them, and makes the copies of blocks that steps ask for.
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

// One thread may use it. As in GpuStepInputs, consecutive steps use `num_staged` host buffers in
// turn.
class GpuKvCache {
 public:
  // Returns the device memory that it needs beside the pools: lists of blocks to copy, and the
  // scales of an e4m3 cache.
  static int64_t device_bytes(const KvLayout& layout);
  static int64_t pinned_bytes(int32_t num_staged);

  // Borrows the layout and the device. Queues the upload of the layout's scales.
  GpuKvCache(const KvLayout& layout, int32_t num_staged, Device& device, Arena& device_memory,
             Arena& pinned);

  // Called once, before any of the methods below.
  Status initialize(const KvPlan& plan);
  bool is_initialized() const { return is_initialized_; }
  const KvPlan& plan() const { return plan_; }
  // Returns the number of blocks of each group's pool.
  std::vector<int32_t> group_blocks() const;
  // Returns one cache per layer, for Decoder::bind_cache().
  std::vector<LayerCache> layer_caches() const;
  std::vector<StateView> state_views() const;
  // Returns the blocks in pinned memory, with the strips of the layout; `data` is null if there are
  // none.
  HostBlocks host_blocks(KvPool pool) const;

  // These three tell the cache which blocks the steps under way use: forget_blocks_in_use() clears
  // the set, and the other two add the blocks of all, or of these block tables (by group). A block
  // that is in no table since forget_blocks_in_use(), and that no copy of the newest step names, is
  // neither read nor written by steps under way.
  void forget_blocks_in_use();
  void note_all_blocks_in_use();
  void note_blocks_in_use(const std::vector<std::vector<int32_t>>& block_tables);
  // Queues the copies to and from host memory, before anything that is queued on the device later.
  // They run beside the step under way, except for blocks that it uses: those wait until it ends.
  // kUnavailable: a block does not exist.
  Status copy_to_and_from_host(const std::vector<HostBlockCopy>& copies);
  // Queues the copies within the device. `turn` is the step's number modulo num_staged. It is
  // called in every step, also without copies.
  Status copy_blocks(size_t turn, const std::vector<BlockCopy>& copies);

 private:
  Status allocate_pool(KvPool pool);
  Status allocate_host(KvPool pool);
  Status copy_blocks(size_t turn, const std::vector<BlockCopy>& copies, KvPool pool);
  bool is_in_use(BlockId block, KvPool pool) const;

  const KvLayout& layout_;
  Device& device_;
  KvPlan plan_;
  bool is_initialized_ = false;
  std::array<Arena, kNumKvPools> memory_;  // by KvPool
  std::array<void*, kNumKvPools> pools_ = {};
  std::array<Arena, kNumKvPools> host_memory_;  // pinned
  std::array<std::byte*, kNumKvPools> host_pools_ = {};
  std::unique_ptr<CopyStream> copy_stream_;                 // null without host memory
  std::array<std::vector<bool>, kNumKvPools> in_use_ = {};  // by block; empty without host memory
  std::vector<BlockCopy> last_copies_;                      // of the newest step
  // The lists of blocks to copy, [2, kCopiesAtOnce] per KvPool: lists_ are pinned and used by steps
  // in turn, lists_on_device_ is the device's copy.
  std::vector<std::array<int32_t*, kNumKvPools>> lists_;
  std::array<int32_t*, kNumKvPools> lists_on_device_;
  float* scales_ = nullptr;  // e4m3: keys' and values', [2, layers, Hkv]
};

}  // namespace quire
