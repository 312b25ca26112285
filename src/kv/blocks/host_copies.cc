#include "kv/blocks/host_copies.h"

namespace quire {

void HostCopies::keep(BlockId block, const BlockContent& content) {
  const auto to = tier_.keep(content, keys_.keys(content.keys));
  if (!to) return;
  copies_.push_back({.block = block, .host_block = *to, .to_host = true, .pool = pool_});
  ++num_offloaded_total_;
}

void HostCopies::load(BlockId host_block, BlockId block) {
  copies_.push_back({.block = block, .host_block = host_block, .to_host = false, .pool = pool_});
  ++num_loaded_total_;
}

void HostCopies::take(std::vector<HostBlockCopy>& out) {
  out.insert(out.end(), copies_.begin(), copies_.end());
  copies_.clear();
}

void HostCopies::fill(KvStats& stats) const {
  stats.num_host_blocks_kept = tier_.num_kept();
  stats.num_offloaded_total = num_offloaded_total_;
  stats.num_loaded_total = num_loaded_total_;
}

}  // namespace quire
