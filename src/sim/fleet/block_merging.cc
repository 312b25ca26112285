#include "sim/fleet/block_merging.h"

#include <algorithm>
#include <unordered_set>

namespace quire::sim {
namespace {

constexpr int32_t kMostTokens = 1024;  // of a merged block

struct Sharing {
  double tokens = 0;  // of all requests, with outputs
  int64_t num_requests = 0;
  int64_t num_cut = 0;                   // requests whose shared beginning may end inside a block
  std::unordered_set<int32_t> prefixes;  // lengths of shared prefixes
  int64_t num_prefixed = 0;
  int32_t hash_block_tokens = 0;  // 0 means that there are no hash blocks
};

Sharing sharing_of(const Workload& workload) {
  Sharing sharing{.num_requests = std::ssize(workload.requests),
                  .hash_block_tokens = workload.hash_block_tokens};
  std::unordered_set<uint64_t> contents;
  for (const SimRequest& r : workload.requests) {
    sharing.tokens += r.input_tokens + r.output_tokens;
    const bool again = !contents.insert(r.content).second;
    if (again || r.previous >= 0) ++sharing.num_cut;
    if (r.prefix_tokens == 0) continue;
    sharing.prefixes.insert(r.prefix_tokens);
    ++sharing.num_prefixed;
  }
  return sharing;
}

// Returns how many more tokens of all requests larger blocks lose than blocks of `block_size` do.
double missed_tokens(const Sharing& sharing, int32_t block_size, int32_t merged) {
  const double half = (merged - block_size) / 2.0;
  double missed = half * static_cast<double>(sharing.num_requests + sharing.num_cut);
  int32_t worst = 0;
  for (const int32_t length : sharing.prefixes) {
    worst = std::max(worst, length % merged - length % block_size);
  }
  missed += worst * static_cast<double>(sharing.num_prefixed);
  if (sharing.hash_block_tokens > 0 && sharing.hash_block_tokens % merged != 0) {
    missed += half * static_cast<double>(sharing.num_requests);
  }
  return missed;
}

bool may_merge(const PoolSpec& pool) {
  const ReplicaSpec& replica = pool.replica;
  const bool one_kind =
      std::all_of(replica.kv_spec.groups.begin(), replica.kv_spec.groups.end(),
                  [](const KvGroupSpec& group) { return group.kind == KvKind::kFull; });
  return one_kind && pool.role == Role::kBoth && replica.tier.capacity_tokens == 0 &&
         !replica.engine.num_blocks && replica.engine.kv.reservation == KvReservation::kPaged;
}

}  // namespace

int32_t mergeable_blocks(const Workload& workload, int32_t block_size, double most_error) {
  const Sharing sharing = sharing_of(workload);
  int32_t factor = 1;
  while (2 * factor * block_size <= kMostTokens &&
         missed_tokens(sharing, block_size, 2 * factor * block_size) <=
             most_error * sharing.tokens) {
    factor *= 2;
  }
  return factor;
}

int32_t merge_blocks(const Workload& workload, FleetSpec& spec) {
  // Pictures are part of the hashes of the blocks that they lie in, so other blocks would change
  // hits.
  if (!workload.picture_items.empty() || spec.pools.empty() ||
      !std::all_of(spec.pools.begin(), spec.pools.end(), may_merge)) {
    return 1;
  }
  int32_t factor = kMostTokens;
  for (const PoolSpec& pool : spec.pools) {
    factor = std::min(factor, mergeable_blocks(workload, pool.replica.kv_spec.block_size));
  }
  for (PoolSpec& pool : spec.pools) {
    pool.replica.kv_spec.block_size *= factor;
    pool.replica.kv_spec.block_bytes *= factor;
  }
  return factor;
}

}  // namespace quire::sim
