// The engine looked at from outside: queue, block grid, prefix probe, recent steps.
#include <algorithm>

#include "engine/engine.h"

namespace quire {
namespace {

KvCellState cell_state(KvBlockState state) {
  switch (state) {
    case KvBlockState::kNull:
      return KvCellState::kNull;
    case KvBlockState::kFree:
      return KvCellState::kFree;
    case KvBlockState::kCached:
      return KvCellState::kCached;
    case KvBlockState::kInUse:
      return KvCellState::kInUse;
    case KvBlockState::kShared:
      break;
  }
  return KvCellState::kShared;
}

}  // namespace

QueueState Engine::queue_state() const {
  const SchedulerStats stats = scheduler_.stats();
  return {.num_requests = stats.num_waiting - stats.num_preempted_now,
          .num_tokens = stats.num_queued_tokens,
          .retry_after_s = scheduler_.retry_after_s()};
}

KvGridSnapshot Engine::kv_grid() const {
  std::vector<KvBlockView> views;
  const bool has_attention = kv_.spec().uses(KvPool::kAttention);
  const KvPool pool = has_attention ? KvPool::kAttention : KvPool::kState;
  kv_.snapshot(pool, views);
  KvGridSnapshot grid;
  grid.block_size = kv_.spec().pool(pool).block_size;
  grid.blocks.reserve(views.size());
  std::unordered_map<const Group*, int32_t> owner_index;
  for (const KvBlockView& view : views) {
    KvGridCell cell{.state = cell_state(view.state), .owner = -1, .ref_cnt = view.ref_cnt};
    const auto choice = view.ref_cnt > 0 ? choices_.find(view.owner) : choices_.end();
    if (choice != choices_.end()) {
      const Group* group = choice->second->group;
      const auto [it, added] =
          owner_index.try_emplace(group, static_cast<int32_t>(grid.owners.size()));
      if (added) grid.owners.push_back(group->external_id);
      cell.owner = it->second;
    }
    grid.blocks.push_back(cell);
  }
  return grid;
}

PrefixProbe Engine::probe_prefix(std::span<const TokenId> token_ids, const CacheKeys& keys) const {
  const KvProbe probe = kv_.probe(token_ids, keys);
  return {.num_cached_tokens = probe.num_tokens, .num_cached_blocks = probe.num_blocks};
}

Status Engine::reset_prefix_cache() {
  const Status status = kv_.reset_prefix_cache();
  drain_kv();
  set_gauges();
  return status;
}

std::vector<StepRecord> Engine::recent_steps() const {
  std::vector<StepRecord> steps = steps_;
  std::rotate(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(next_step_), steps.end());
  return steps;
}

}  // namespace quire
