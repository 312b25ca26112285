// KvPools owns the memory of KV blocks on a CPU: a pool for each kind, and a pool of host blocks
// for copies on their way to and from files. It makes the copies that steps ask for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "comm/shared_memory.h"
#include "core/executor.h"
#include "core/kv_spec.h"
#include "core/step.h"
#include "device/stream.h"
#include "tensor/arena.h"

namespace quire {

class KvPools {
 public:
  // Borrows `stream`.
  explicit KvPools(HostStream& stream) : stream_(stream) {}

  struct Limits {
    int64_t free_memory_bytes = 0;    // of the machine; 0: unknown
    bool shares_host_blocks = false;  // with other processes of this machine
  };
  // Called once.
  Status allocate(const KvSpec& spec, const KvPlan& plan, const Limits& limits);
  bool is_allocated() const { return is_allocated_; }
  const KvPlan& plan() const { return plan_; }
  // Returns the pool's memory, or null when the model does not use that pool.
  void* pool(KvPool pool) const { return pools_[static_cast<size_t>(pool)]; }
  // Returns the number of blocks of each group's pool.
  const std::vector<int32_t>& group_blocks() const { return group_blocks_; }
  // Returns the host blocks, without strips; `data` is null if there are none.
  HostBlocks host_blocks(KvPool pool) const;
  // Returns an empty offer if there are no host blocks or if they are not shared.
  SharedMemoryOffer offer_of_host_blocks(KvPool pool) const;

  // Copies between KV blocks and host blocks, before anything else of a step. kUnavailable: a block
  // does not exist.
  Status copy_to_and_from_host(const std::vector<HostBlockCopy>& copies);
  // Copies between KV blocks that check_block_copies() has checked.
  void copy_blocks(const std::vector<BlockCopy>& copies);
  // Returns the memory of all blocks to the system; a page is allocated again, zeroed, when it is
  // written.
  void discard();

 private:
  Status allocate_pool(KvPool pool, int64_t free_memory_bytes);
  Status allocate_host(KvPool pool, bool shares);
  void copy_blocks(const std::vector<BlockCopy>& copies, KvPool pool);

  HostStream& stream_;
  KvSpec spec_;
  KvPlan plan_;
  bool is_allocated_ = false;
  std::array<Arena, kNumKvPools> arenas_;  // by KvPool
  std::array<void*, kNumKvPools> pools_ = {};
  std::array<Arena, kNumKvPools> host_arenas_;
  std::array<std::optional<SharedMemory>, kNumKvPools> shared_;
  std::array<std::byte*, kNumKvPools> host_blocks_ = {};
  std::vector<int32_t> group_blocks_;
  std::vector<int32_t> copy_source_, copy_destination_;  // kept for their capacity
};

}  // namespace quire
