#include "exec/gpu/gpu_kv_cache.h"

#include <algorithm>

#include "exec/kv/block_copies.h"

namespace quire {
namespace {

constexpr int64_t kCopiesAtOnce = 1024;
constexpr int64_t kListBytes = 2 * kCopiesAtOnce * int64_t{sizeof(int32_t)};
constexpr auto kNumLists = static_cast<int64_t>(kNumKvPools);

int64_t num_scales(const KvLayout& layout) {
  return static_cast<int64_t>(layout.key_scales.size() + layout.value_scales.size());
}

}  // namespace

int64_t GpuKvCache::device_bytes(const KvLayout& layout) {
  return kNumLists * Arena::padded(kListBytes) + Arena::padded(num_scales(layout) * 4);
}

int64_t GpuKvCache::pinned_bytes(int32_t num_staged) {
  return num_staged * kNumLists * Arena::padded(kListBytes);
}

GpuKvCache::GpuKvCache(const KvLayout& layout, int32_t num_staged, Device& device,
                       Arena& device_memory, Arena& pinned)
    : layout_(layout), device_(device), lists_(static_cast<size_t>(num_staged)) {
  for (auto& step : lists_) {
    for (int32_t*& list : step) list = pinned.allocate<int32_t>(2 * kCopiesAtOnce);
  }
  for (int32_t*& list : lists_on_device_) list = device_memory.allocate<int32_t>(2 * kCopiesAtOnce);
  if (num_scales(layout) == 0) return;
  scales_ = device_memory.allocate<float>(num_scales(layout));
  const auto keys = static_cast<int64_t>(layout.key_scales.size());
  device.copy_to_device(scales_, layout.key_scales.data(), keys * 4);
  device.copy_to_device(scales_ + keys, layout.value_scales.data(),
                        static_cast<int64_t>(layout.value_scales.size()) * 4);
}

Status GpuKvCache::allocate_pool(KvPool pool) {
  if (plan_.count(pool) < 2) {
    return invalid_argument("KV cache: expected at least 2 {} blocks, got {}", to_string(pool),
                            plan_.count(pool));
  }
  const int64_t bytes = plan_.count(pool) * layout_.spec.pool(pool).block_bytes;
  const auto index = static_cast<size_t>(pool);
  QUIRE_ASSIGN_OR_RETURN(memory_[index], device_.allocate(bytes));
  pools_[index] = memory_[index].allocate_bytes(bytes);
  return {};
}

Status GpuKvCache::initialize(const KvPlan& plan) {
  if (is_initialized_) return internal_error("KV cache: initialized twice");
  plan_ = plan;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (layout_.spec.uses(pool)) QUIRE_RETURN_IF_ERROR(allocate_pool(pool));
  }
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState})
    QUIRE_RETURN_IF_ERROR(allocate_host(pool));
  // The device clears the pools first.
  if (copy_stream_ != nullptr) copy_stream_->wait_for_device();
  is_initialized_ = true;
  return {};
}

Status GpuKvCache::allocate_host(KvPool pool) {
  const auto index = static_cast<size_t>(pool);
  const int64_t bytes = plan_.num_host(pool) * layout_.spec.pool(pool).block_bytes;
  if (plan_.num_host(pool) < 2 || bytes == 0) return {};
  QUIRE_ASSIGN_OR_RETURN(host_memory_[index], device_.allocate_pinned(bytes));
  host_pools_[index] = static_cast<std::byte*>(host_memory_[index].allocate_bytes(bytes));
  in_use_[index].assign(static_cast<size_t>(plan_.count(pool)), false);
  if (copy_stream_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(copy_stream_, device_.make_copy_stream());
  }
  return {};
}

HostBlocks GpuKvCache::host_blocks(KvPool pool) const {
  std::byte* const data = host_pools_[static_cast<size_t>(pool)];
  if (data == nullptr) return {};
  KvLayout layout = layout_;  // with the order of GPUs, as in layer_caches()
  for (KvLayerPlace& place : layout.layers) place.order = KvOrder::kTokenMajor;
  return {.data = data,
          .block_bytes = layout_.spec.pool(pool).block_bytes,
          .num_blocks = plan_.num_host(pool),
          .strips = layout.strips(pool)};
}

std::vector<int32_t> GpuKvCache::group_blocks() const {
  std::vector<int32_t> counts;
  for (const KvGroupSpec& group : layout_.spec.groups) counts.push_back(plan_.count(group.pool()));
  return counts;
}

std::vector<LayerCache> GpuKvCache::layer_caches() const {
  std::vector<LayerCache> caches =
      layout_.layer_caches(pools_[static_cast<size_t>(KvPool::kAttention)]);
  for (size_t layer = 0; layer < caches.size(); ++layer) {
    KvCacheView& view = caches[layer].view;
    view.order = KvOrder::kTokenMajor;
    const int64_t first_scale = layout_.layers[layer].first_scale;
    if (view.key_scale != nullptr) view.key_scale = scales_ + first_scale;
    if (view.value_scale != nullptr)
      view.value_scale = scales_ + layout_.key_scales.size() + first_scale;
  }
  return caches;
}

std::vector<StateView> GpuKvCache::state_views() const {
  return layout_.state_views(pools_[static_cast<size_t>(KvPool::kState)]);
}

void GpuKvCache::forget_blocks_in_use() {
  for (std::vector<bool>& blocks : in_use_) blocks.assign(blocks.size(), false);
}

void GpuKvCache::note_all_blocks_in_use() {
  for (std::vector<bool>& blocks : in_use_) blocks.assign(blocks.size(), true);
}

void GpuKvCache::note_blocks_in_use(const std::vector<std::vector<int32_t>>& block_tables) {
  for (size_t group = 0; group < block_tables.size(); ++group) {
    std::vector<bool>& blocks = in_use_[static_cast<size_t>(layout_.spec.groups[group].pool())];
    if (blocks.empty()) continue;
    for (const int32_t block : block_tables[group]) blocks[static_cast<size_t>(block)] = true;
  }
}

bool GpuKvCache::is_in_use(BlockId block, KvPool pool) const {
  const auto is_copied = [&](const BlockCopy& copy) {
    return copy.pool == pool && (copy.source == block || copy.destination == block);
  };
  return in_use_[static_cast<size_t>(pool)][static_cast<size_t>(block.value)] ||
         std::any_of(last_copies_.begin(), last_copies_.end(), is_copied);
}

// A block is contiguous on the device and on the host. A copy waits for those queued before it, so
// that once one copy of a block in use waits, all later ones do.
Status GpuKvCache::copy_to_and_from_host(const std::vector<HostBlockCopy>& copies) {
  if (copies.empty()) return {};
  QUIRE_RETURN_IF_ERROR(check_host_copies(copies, plan_));
  bool waits = false;
  for (const HostBlockCopy& copy : copies) {
    const auto pool = static_cast<size_t>(copy.pool);
    const int64_t bytes = layout_.spec.pool(copy.pool).block_bytes;
    if (host_pools_[pool] == nullptr) continue;  // all its layers are on other stages
    if (!waits && is_in_use(copy.block, copy.pool)) {
      copy_stream_->wait_for_device();
      waits = true;
    }
    std::byte* here = static_cast<std::byte*>(pools_[pool]) + copy.block.value * bytes;
    std::byte* host = host_pools_[pool] + copy.host_block.value * bytes;
    if (copy.to_host) {
      copy_stream_->copy_to_host(host, here, bytes);
    } else {
      copy_stream_->copy_to_device(here, host, bytes);
    }
  }
  if (copy_stream_ != nullptr) copy_stream_->hold_device();
  return {};
}

Status GpuKvCache::copy_blocks(size_t turn, const std::vector<BlockCopy>& copies) {
  last_copies_ = copies;
  if (copies.empty()) return {};
  QUIRE_RETURN_IF_ERROR(copy_blocks(turn, copies, KvPool::kAttention));
  return copy_blocks(turn, copies, KvPool::kState);
}

Status GpuKvCache::copy_blocks(size_t turn, const std::vector<BlockCopy>& copies, KvPool pool) {
  const auto index = static_cast<size_t>(pool);
  int32_t* const list = lists_[turn][index];
  int32_t* const on_device = lists_on_device_[index];
  int64_t count = 0;
  if (layout_.spec.pool(pool).block_bytes == 0) return {};  // all its layers are on other stages
  const auto flush = [&] {
    if (count == 0) return;
    device_.copy_to_device(on_device, list, kListBytes);
    kv_block_copy(device_.stream(), {.pool = pools_[index],
                                     .block_bytes = layout_.spec.pool(pool).block_bytes,
                                     .source = on_device,
                                     .destination = on_device + kCopiesAtOnce,
                                     .num_copies = count});
    count = 0;
  };
  for (const BlockCopy& copy : copies) {
    if (copy.pool != pool) continue;
    if (count == kCopiesAtOnce) {  // rare: more copies than one list holds
      flush();
      QUIRE_RETURN_IF_ERROR(device_.synchronize());
    }
    list[count] = copy.source.value;
    list[kCopiesAtOnce + count++] = copy.destination.value;
  }
  flush();
  return {};
}

}  // namespace quire
