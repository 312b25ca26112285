// KvPools holds the memory of KV blocks on a CPU: a pool for each kind, and beside them blocks for
// copies on their way to and from files. It makes the copies that steps ask for.
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
    int64_t free_memory_bytes = 0;    // what the machine has left; 0: unknown
    bool shares_host_blocks = false;  // with other processes of this machine
  };
  // Once.
  Status allocate(const KvSpec& spec, const KvPlan& plan, const Limits& limits);
  bool is_allocated() const { return is_allocated_; }
  const KvPlan& plan() const { return plan_; }
  // Returns the pool's memory, or null when the model does not use that pool.
  void* pool(KvPool pool) const { return pools_[static_cast<size_t>(pool)]; }
  // By group, how many blocks its pool has.
  const std::vector<int32_t>& group_blocks() const { return group_blocks_; }
  // Without strips; `data` is null where there are none.
  HostBlocks host_blocks(KvPool pool) const;
  // Nothing is offered where there are none, or none that are shared.
  SharedMemoryOffer offer_of_host_blocks(KvPool pool) const;

  // Copies between these blocks and those beside them, before anything else of a step.
  Status copy_to_and_from_host(const std::vector<HostBlockCopy>& copies);
  // Copies between blocks that exist, which check_block_copies() has checked.
  void copy_blocks(const std::vector<BlockCopy>& copies);
  // Gives the memory of all blocks back; it comes again, empty, when it is written.
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
