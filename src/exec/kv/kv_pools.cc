#include "exec/kv/kv_pools.h"

#include <cstring>

#include "exec/kv/block_copies.h"
#include "kernels/api/kv_cache.h"

namespace quire {

Status KvPools::allocate_pool(KvPool pool, int64_t free_memory_bytes) {
  if (plan_.count(pool) < 2) {
    return invalid_argument("KV cache: expected at least 2 {} blocks, got {}", to_string(pool),
                            plan_.count(pool));
  }
  const int64_t bytes = plan_.count(pool) * spec_.pool(pool).block_bytes;
  // Mapping more memory than there is would succeed, and the process would be killed when it uses
  // the pages.
  if (free_memory_bytes > 0 && bytes > free_memory_bytes) {
    constexpr int64_t kMiB = int64_t{1} << 20;
    return resource_exhausted(
        "KV cache: its blocks take {} MiB, but only {} MiB of memory are free", bytes / kMiB,
        free_memory_bytes / kMiB);
  }
  const auto index = static_cast<size_t>(pool);
  QUIRE_ASSIGN_OR_RETURN(arenas_[index], Arena::create(bytes));
  pools_[index] = arenas_[index].allocate_bytes(bytes);
  return {};
}

Status KvPools::allocate(const KvSpec& spec, const KvPlan& plan, const Limits& limits) {
  if (is_allocated_) return internal_error("KV cache: initialized twice");
  spec_ = spec;
  plan_ = plan;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (!spec_.uses(pool)) continue;
    QUIRE_RETURN_IF_ERROR(allocate_pool(pool, limits.free_memory_bytes));
    QUIRE_RETURN_IF_ERROR(allocate_host(pool, limits.shares_host_blocks));
  }
  for (const KvGroupSpec& group : spec_.groups) group_blocks_.push_back(plan_.count(group.pool()));
  is_allocated_ = true;
  return {};
}

Status KvPools::allocate_host(KvPool pool, bool shares) {
  if (plan_.num_host(pool) < 2) return {};
  const auto index = static_cast<size_t>(pool);
  const int64_t bytes = plan_.num_host(pool) * spec_.pool(pool).block_bytes;
  if (shares) {
    QUIRE_ASSIGN_OR_RETURN(shared_[index], SharedMemory::create(bytes));
    host_blocks_[index] = shared_[index]->bytes().data();
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(host_arenas_[index], Arena::create(bytes));
  host_blocks_[index] = static_cast<std::byte*>(host_arenas_[index].allocate_bytes(bytes));
  return {};
}

HostBlocks KvPools::host_blocks(KvPool pool) const {
  return {.data = host_blocks_[static_cast<size_t>(pool)],
          .block_bytes = spec_.pool(pool).block_bytes,
          .num_blocks = plan_.num_host(pool),
          .strips = {}};
}

SharedMemoryOffer KvPools::offer_of_host_blocks(KvPool pool) const {
  const std::optional<SharedMemory>& memory = shared_[static_cast<size_t>(pool)];
  return memory ? memory->offer() : SharedMemoryOffer{};
}

// Each thread makes its part of every copy, in the copies' order: a copy may read what an earlier
// one wrote.
Status KvPools::copy_to_and_from_host(const std::vector<HostBlockCopy>& copies) {
  if (copies.empty()) return {};
  QUIRE_RETURN_IF_ERROR(check_host_copies(copies, plan_));
  const ThreadTeam& team = stream_.team();
  stream_.team().run([&](int thread) {
    for (const HostBlockCopy& copy : copies) {
      const auto pool = static_cast<size_t>(copy.pool);
      const int64_t block_bytes = spec_.pool(copy.pool).block_bytes;
      const WorkRange part = split_work(block_bytes, 64, thread, team.size());
      std::byte* const here =
          static_cast<std::byte*>(pools_[pool]) + copy.block.value * block_bytes + part.begin;
      std::byte* const there =
          host_blocks_[pool] + copy.host_block.value * block_bytes + part.begin;
      std::memcpy(copy.to_host ? there : here, copy.to_host ? here : there,
                  static_cast<size_t>(part.end - part.begin));
    }
  });
  return {};
}

void KvPools::copy_blocks(const std::vector<BlockCopy>& copies) {
  copy_blocks(copies, KvPool::kAttention);
  copy_blocks(copies, KvPool::kState);
}

void KvPools::copy_blocks(const std::vector<BlockCopy>& copies, KvPool pool) {
  copy_source_.clear();
  copy_destination_.clear();
  for (const BlockCopy& copy : copies) {
    if (copy.pool != pool) continue;
    copy_source_.push_back(copy.source.value);
    copy_destination_.push_back(copy.destination.value);
  }
  if (copy_source_.empty()) return;
  kv_block_copy(stream_, {.pool = pools_[static_cast<size_t>(pool)],
                          .block_bytes = spec_.pool(pool).block_bytes,
                          .source = copy_source_.data(),
                          .destination = copy_destination_.data(),
                          .num_copies = std::ssize(copy_source_)});
}

void KvPools::discard() {
  for (Arena& arena : arenas_) arena.discard();
}

}  // namespace quire
