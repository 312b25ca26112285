#include "kv/blocks/block_store.h"

namespace quire {

BlockStore::BlockStore(KvPool pool, int32_t num_blocks, int32_t block_size,
                       const KvOptions& options, CacheKeyTable& keys)
    : name_(pool),
      block_size_(block_size),
      pool_(num_blocks),
      cache_(num_blocks, block_size, keys),
      residency_(num_blocks, options.residency_sample_rate, options.max_residency_samples),
      events_(options.enable_events, options.max_events),
      num_holds_(static_cast<size_t>(num_blocks), 0) {
  if (options.num_host(pool) > 1)
    host_.emplace(pool, options.num_host(pool), block_size, options.hash_seed, keys);
}

// --- References ---

// The records that taking and registering a block touch are scattered in tables larger than a
// core's caches. So those of the next few blocks are prefetched, in the order in which the free
// list returns them.
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
  ++num_allocated_total_;
  return block;
}

void BlockStore::evict(BlockId block) {
  const BlockContent content = cache_.content(block);
  const BlockRemoved removed{.hash = content.hash, .group = content.group};
  if (host_) host_->keep(block, content);
  if (cache_.erase(block)) events_.add(removed);
  residency_.on_evict(block, now_us_);
  ++num_evicted_total_;
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
  if (!cache_.insert(block, content) || !events_.enabled()) return;
  events_.add(BlockStored{.hash = content.hash,
                          .parent = content.parent,
                          .token_ids = {content.tokens.begin(), content.tokens.end()},
                          .group = content.group,
                          .block_index = index});
}

void BlockStore::clear() {
  cache_.clear();
  if (host_) host_->clear();
  events_.add(AllBlocksCleared{});
}

// --- Host tier ---

std::optional<BlockId> BlockStore::copy_to_host(const BlockContent& content) {
  if (const auto there = host_->find(content)) return there;
  if (const auto here = cache_.find(content)) host_->keep(*here, content);
  return host_->find(content);
}

std::optional<BlockId> BlockStore::load(const BlockContent& content, int32_t index) {
  if (pool_.num_free() == 0) return std::nullopt;
  // The block is taken first, since its old content may push other content out of the host.
  const BlockId block = take();
  const std::optional<BlockId> from = host_->find(content);
  if (!from) {
    unref(block);
    return std::nullopt;
  }
  host_->load(*from, block);
  register_block(content, block, index);
  return block;
}

// --- Records ---

void BlockStore::fill(KvStats& stats) const {
  stats.num_usable_blocks = pool_.num_blocks() - 1;
  stats.num_free_blocks = pool_.num_free();
  stats.num_cached_blocks = cache_.num_registered();
  stats.num_allocated_total = num_allocated_total_;
  stats.num_evicted_total = num_evicted_total_;
  stats.num_lost_events = events_.num_lost();
  if (host_) host_->fill(stats);
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
