// The memory of KV blocks on a CPU, a pool for each kind and the blocks beside them for copies on
// their way to and from files; and the copies that steps ask for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
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

  // Once. `free_memory_bytes`: what the machine has left; 0: unknown.
  Status allocate(const KvSpec& spec, const KvPlan& plan, int64_t free_memory_bytes);
  bool is_allocated() const { return is_allocated_; }
  const KvPlan& plan() const { return plan_; }
  // Null: not used.
  void* pool(KvPool pool) const { return pools_[static_cast<size_t>(pool)]; }
  // By group, how many blocks its pool has.
  const std::vector<int32_t>& group_blocks() const { return group_blocks_; }
  HostBlocks host_blocks() const;

  // Before anything else of a step: copies between these blocks and those beside them.
  Status copy_to_and_from_host(const std::vector<HostBlockCopy>& copies);
  // Of blocks that exist: check_block_copies().
  void copy_blocks(const std::vector<BlockCopy>& copies);
  // Gives the memory of all blocks back; it comes again, empty, when it is written.
  void discard();

 private:
  Status allocate_pool(KvPool pool, int64_t free_memory_bytes);
  void copy_blocks(const std::vector<BlockCopy>& copies, KvPool pool);

  HostStream& stream_;
  KvSpec spec_;
  KvPlan plan_;
  bool is_allocated_ = false;
  std::array<Arena, kNumKvPools> arenas_;  // by KvPool
  std::array<void*, kNumKvPools> pools_ = {};
  Arena host_arena_;
  std::byte* host_blocks_ = nullptr;
  std::vector<int32_t> group_blocks_;
  std::vector<int32_t> copy_source_, copy_destination_;  // kept for their capacity
};

}  // namespace quire
