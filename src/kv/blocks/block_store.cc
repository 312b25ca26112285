#include "kv/blocks/block_store.h"

#include <iterator>

namespace quire {

BlockStore::BlockStore(KvPool pool, int32_t num_blocks, int32_t block_size,
                       const KvOptions& options, CacheKeyTable& keys)
    : name_(pool),
      block_size_(block_size),
      enable_events_(options.enable_events),
      max_events_(static_cast<size_t>(options.max_events)),
      keys_(keys),
      pool_(num_blocks),
      cache_(num_blocks, block_size, keys),
      residency_(num_blocks, options.residency_sample_rate, options.max_residency_samples),
      num_holds_(static_cast<size_t>(num_blocks), 0) {
  if (options.num_host_blocks > 1) {
    host_.emplace(options.num_host_blocks, block_size, options.hash_seed);
  }
}

// --- References ---

// What taking and registering a block touches lies anywhere in tables larger than a core's caches:
// it is asked for a few blocks ahead, in the order in which the free list gives them out.
void BlockStore::prefetch_next_blocks() const {
  constexpr int kSlotAhead = 3;
  constexpr int kBlockAhead = 8;
  BlockId block = pool_.first_free();
  for (int i = 0; i < kSlotAhead; ++i) block = pool_.next_free(block);
  if (cache_.contains(block)) cache_.prefetch_slot(block);
  for (int i = kSlotAhead; i < kBlockAhead; ++i) block = pool_.next_free(block);
  cache_.prefetch_block(block);
}

BlockId BlockStore::take() {
  const BlockId block = pool_.take();
  prefetch_next_blocks();
  if (cache_.contains(block)) evict(block);
  residency_.on_allocate(block, now_us_);
  ++totals_.num_allocated_total;
  return block;
}

void BlockStore::keep_on_host(BlockId block, const BlockContent& content) {
  const auto to = host_->keep(content, keys_.keys(content.keys));
  if (!to) return;
  host_copies_.push_back({.block = block, .host_block = *to, .to_host = true, .pool = name_});
  ++totals_.num_offloaded_total;
}

void BlockStore::evict(BlockId block) {
  const BlockContent content = cache_.content(block);
  const BlockRemoved removed{.hash = content.hash, .group = content.group};
  if (host_) keep_on_host(block, content);
  if (cache_.erase(block)) emit(removed);
  residency_.on_evict(block, now_us_);
  ++totals_.num_evicted_total;
}

void BlockStore::hold(BlockId block) {
  pool_.ref(block);
  ++num_holds_[static_cast<size_t>(block.value)];
}

void BlockStore::release_hold(BlockId block) {
  --num_holds_[static_cast<size_t>(block.value)];
  unref(block);
}

// --- Content ---

void BlockStore::register_block(const BlockContent& content, BlockId block, int32_t index) {
  if (!cache_.insert(block, content) || !enable_events_) return;
  emit(BlockStored{.hash = content.hash,
                   .parent = content.parent,
                   .token_ids = {content.tokens.begin(), content.tokens.end()},
                   .group = content.group,
                   .block_index = index});
}

void BlockStore::clear() {
  cache_.clear();
  if (host_) host_->clear();
  emit(AllBlocksCleared{});
}

// --- Host tier ---

bool BlockStore::host_holds(const BlockContent& content) const {
  return host_->holds(content, keys_.keys(content.keys));
}

std::optional<BlockId> BlockStore::copy_to_host(const BlockContent& content) {
  const CacheKeys& keys = keys_.keys(content.keys);
  if (const auto there = host_->find(content, keys)) return there;
  if (const auto here = cache_.find(content)) keep_on_host(*here, content);
  return host_->find(content, keys);
}

std::optional<BlockId> BlockStore::load(const BlockContent& content, int32_t index) {
  if (pool_.num_free() == 0) return std::nullopt;
  // A block is taken first, since what it held may push other content out of the host.
  const BlockId block = take();
  const std::optional<BlockId> from = host_->find(content, keys_.keys(content.keys));
  if (!from) {
    unref(block);
    return std::nullopt;
  }
  host_copies_.push_back({.block = block, .host_block = *from, .to_host = false, .pool = name_});
  register_block(content, block, index);
  ++totals_.num_loaded_total;
  return block;
}

void BlockStore::take_host_copies(std::vector<HostBlockCopy>& out) {
  out.insert(out.end(), host_copies_.begin(), host_copies_.end());
  host_copies_.clear();
}

// --- Books ---

void BlockStore::fill(KvStats& stats) const {
  stats.num_usable_blocks = pool_.num_blocks() - 1;
  stats.num_free_blocks = pool_.num_free();
  stats.num_cached_blocks = cache_.num_registered();
  stats.num_allocated_total = totals_.num_allocated_total;
  stats.num_evicted_total = totals_.num_evicted_total;
  stats.num_lost_events = totals_.num_lost_events;
  stats.num_host_blocks_kept = host_ ? host_->num_kept() : 0;
  stats.num_offloaded_total = totals_.num_offloaded_total;
  stats.num_loaded_total = totals_.num_loaded_total;
}

void BlockStore::emit(KvEvent event) {
  if (!enable_events_) return;
  if (events_.size() >= max_events_) {
    ++totals_.num_lost_events;
    return;
  }
  events_.push_back(std::move(event));
}

void BlockStore::drain_events(std::vector<KvEvent>& out) {
  out.insert(out.end(), std::make_move_iterator(events_.begin()),
             std::make_move_iterator(events_.end()));
  events_.clear();
}

// --- BlockHold ---

BlockHold& BlockHold::operator=(BlockHold&& other) noexcept {
  if (this == &other) return *this;
  release();
  held_ = std::exchange(other.held_, {});
  return *this;
}

void BlockHold::add(BlockStore& store, BlockId block) {
  store.hold(block);
  held_.push_back({.store = &store, .block = block});
}

void BlockHold::release() {
  while (!held_.empty()) {
    held_.back().store->release_hold(held_.back().block);
    held_.pop_back();
  }
}

}  // namespace quire
