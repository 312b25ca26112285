#include "sched/budget/block_promises.h"

#include <cmath>

namespace quire {

BlockCounts BlockPromises::owed(const Entry& entry) const {
  if (entry.is_beam()) return owed_to_beam(entry);
  const BlockTables& tables = state_.kv.tables();
  if (entry.hard) return tables.blocks_missing(entry.sequence, entry.max_kv_tokens);
  return state_.config.reserve_full_isl
             ? tables.blocks_missing(entry.sequence, entry.request.num_tokens())
             : BlockCounts{};
}

BlockCounts BlockPromises::sum(bool hard_only) const {
  BlockCounts sum;
  if (hard_only && state_.roster.num_hard_running() == 0) return sum;
  for (const Entry* entry : state_.roster.running()) {
    // A request that computes all its tokens in this step already has the blocks for them.
    const bool has_all = entry->num_granted >= entry->num_new_tokens() && entry->num_granted > 0;
    if (entry->hard || !(hard_only || has_all)) sum += owed(*entry);
  }
  return sum;
}

BlockCounts BlockPromises::watermark() const {
  BlockCounts counts;
  if (state_.roster.running().empty()) return counts;
  const BlockCounts usable = state_.kv.stores().num_usable();
  for (size_t i = 0; i < kNumKvPools; ++i) {
    counts.counts[i] =
        std::llround(std::ceil(state_.config.watermark * static_cast<double>(usable.counts[i])));
  }
  return counts;
}

// The first beam holds the prompt too. Unless blocks leave a sequence as it grows, all beams share
// the full blocks of the prompt.
BlockCounts BlockPromises::blocks_for_beam(int32_t num_tokens, int32_t num_prompt_tokens) const {
  const BlockTables& tables = state_.kv.tables();
  const BlockCounts whole = tables.sizing().blocks_for(num_tokens);
  if (tables.sizing().blocks_leave() || state_.kv.spec().uses(KvPool::kState)) return whole;
  const int32_t num_shared = num_prompt_tokens / state_.kv.block_size() * state_.kv.block_size();
  return num_shared == 0 ? whole : whole - tables.sizing().blocks_for(num_shared);
}

BlockCounts BlockPromises::owed_to_beam(const Entry& beam) const {
  const Request& request = beam.request;
  const BlockTables& tables = state_.kv.tables();
  if (!beam.hard && !state_.config.reserve_full_isl) return {};
  const int32_t num_tokens = beam.hard ? beam.max_kv_tokens : request.num_tokens();
  if (beam.has_sequence && !tables.table(beam.sequence, 0).empty())
    return tables.blocks_missing(beam.sequence, num_tokens);
  if (&beam == beam.beam_leader) return tables.sizing().blocks_for(num_tokens);
  // Such a beam begins with a copy of the block in which its parent's text ends.
  if (beam.is_spare_beam && !beam.hard) return tables.sizing().a_block_each();
  return blocks_for_beam(num_tokens, request.num_prompt_tokens);
}

BlockCounts BlockPromises::owed_to_other_beams(const Entry& leader) const {
  BlockCounts sum;
  for (const Entry* beam : leader.beams) {
    if (beam != &leader) sum += owed_to_beam(*beam);
  }
  return sum;
}

}  // namespace quire
