#include "exec/gpu/gpu_kv_cache.h"

#include <algorithm>

#include "exec/gpu/gpu_step_inputs.h"

namespace quire {
namespace {

constexpr int64_t kCopiesAtOnce = 1024;
constexpr int64_t kListBytes = 2 * kCopiesAtOnce * int64_t{sizeof(int32_t)};

int64_t num_scales(const KvLayout& layout) {
  return static_cast<int64_t>(layout.key_scales.size() + layout.value_scales.size());
}

}  // namespace

int64_t GpuKvCache::device_bytes(const KvLayout& layout) {
  return Arena::padded(kListBytes) + Arena::padded(num_scales(layout) * 4);
}

int64_t GpuKvCache::pinned_bytes() { return kGpuStepsInFlight * Arena::padded(kListBytes); }

GpuKvCache::GpuKvCache(const KvLayout& layout, Device& device, Arena& device_memory, Arena& pinned)
    : layout_(layout), device_(device) {
  for (int32_t i = 0; i < kGpuStepsInFlight; ++i)
    lists_.push_back(pinned.allocate<int32_t>(2 * kCopiesAtOnce));
  list_on_device_ = device_memory.allocate<int32_t>(2 * kCopiesAtOnce);
  if (num_scales(layout) == 0) return;
  scales_ = device_memory.allocate<float>(num_scales(layout));
  const auto keys = static_cast<int64_t>(layout.key_scales.size());
  device.copy_to_device(scales_, layout.key_scales.data(), keys * 4);
  device.copy_to_device(scales_ + keys, layout.value_scales.data(),
                        static_cast<int64_t>(layout.value_scales.size()) * 4);
}

Status GpuKvCache::initialize(const KvPlan& plan) {
  if (num_blocks_ != 0) return internal_error("KV cache: initialized twice");
  if (plan.num_blocks < 2)
    return invalid_argument("KV cache: expected at least 2 blocks, got {}", plan.num_blocks);
  const int64_t bytes = int64_t{plan.num_blocks} * layout_.spec.block_bytes;
  QUIRE_ASSIGN_OR_RETURN(memory_, device_.allocate(bytes));
  pool_ = memory_.allocate_bytes(bytes);
  if (plan.num_host_blocks > 1) {
    const int64_t host_bytes = int64_t{plan.num_host_blocks} * layout_.spec.block_bytes;
    QUIRE_ASSIGN_OR_RETURN(host_memory_, device_.allocate_pinned(host_bytes));
    host_pool_ = static_cast<std::byte*>(host_memory_.allocate_bytes(host_bytes));
    num_host_blocks_ = plan.num_host_blocks;
  }
  num_blocks_ = plan.num_blocks;
  return {};
}

std::vector<LayerCache> GpuKvCache::layer_caches() const {
  std::vector<LayerCache> caches = layout_.layer_caches(pool_);
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

// A block is one piece of memory, on the device as on the host.
Status GpuKvCache::copy_to_and_from_host(const std::vector<HostBlockCopy>& copies) {
  const int64_t bytes = layout_.spec.block_bytes;
  for (const HostBlockCopy& copy : copies) {
    if (copy.block.value <= 0 || copy.block.value >= num_blocks_ || copy.host_block.value <= 0 ||
        copy.host_block.value >= num_host_blocks_) {
      return internal_error("step plan: copy of block {} to or from host block {}: out of range",
                            copy.block, copy.host_block);
    }
    std::byte* here = static_cast<std::byte*>(pool_) + copy.block.value * bytes;
    std::byte* host = host_pool_ + copy.host_block.value * bytes;
    if (copy.to_host) {
      device_.copy_to_host(host, here, bytes);
    } else {
      device_.copy_to_device(here, host, bytes);
    }
  }
  return {};
}

Status GpuKvCache::copy_blocks(size_t parity, const std::vector<BlockCopy>& copies) {
  int32_t* list = lists_[parity];
  for (size_t begin = 0; begin < copies.size(); begin += kCopiesAtOnce) {
    const auto count =
        std::min<int64_t>(kCopiesAtOnce, static_cast<int64_t>(copies.size() - begin));
    // Rare: more copies than one list holds.
    if (begin > 0) QUIRE_RETURN_IF_ERROR(device_.synchronize());
    for (int64_t i = 0; i < count; ++i) {
      const BlockCopy& copy = copies[begin + static_cast<size_t>(i)];
      list[i] = copy.source.value;
      list[kCopiesAtOnce + i] = copy.destination.value;
    }
    device_.copy_to_device(list_on_device_, list, kListBytes);
    kv_block_copy(device_.stream(), {.pool = pool_,
                                     .block_bytes = layout_.spec.block_bytes,
                                     .source = list_on_device_,
                                     .destination = list_on_device_ + kCopiesAtOnce,
                                     .num_copies = count});
  }
  return {};
}

}  // namespace quire
