// KvManager: which block holds which tokens of which sequence. Pure bookkeeping of ids and counts
// (law L1).
//
// It owns the block pool, the prefix cache and one block table per sequence and group. One sequence
// is one request's stay in the cache; the scheduler opens it, grows it, commits what was computed,
// and closes it. Normative contract: kv/README.md; invariants KV-1 .. KV-7: docs/invariants.md.
//
// Positions of one allocation, left to right:
//
//   | computed | hit (adopted, ref_cnt++) | new (to be computed) | look-ahead |
//                                         ^ blocks allocated from here on; a partial hit block is
//                                         copied first
//
// One thread. Nothing here reads a clock: begin_step() brings the time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/result.h"
#include "core/kv_spec.h"
#include "core/request.h"
#include "core/step.h"
#include "kv/block_hash.h"
#include "kv/block_pool.h"
#include "kv/group_policy.h"
#include "kv/host_tier.h"
#include "kv/kv_events.h"
#include "kv/prefix_cache.h"
#include "kv/residency.h"

namespace quire {

using KvSequenceId = StrongId<struct KvSequenceIdTag, int32_t>;

// How a sequence claims memory. kContiguousMaxLen is what servers did before paged attention, kept
// as a yardstick: the first allocation takes room for max_sequence_tokens and nothing is shared.
enum class KvReservation : uint8_t { kPaged, kContiguousMaxLen };

struct KvOptions {
  bool enable_prefix_caching = true;
  uint64_t hash_seed = 0;  // random per process unless processes share hashes
  // Longest sequence in tokens (max_model_len). Needed by kContiguousMaxLen, otherwise only sizes
  // buffers.
  int32_t max_sequence_tokens = 0;
  // Most tokens of one sequence computed in one step; bounds what a windowed group holds. 0: no
  // bound known.
  int32_t max_step_tokens = 0;
  KvReservation reservation = KvReservation::kPaged;
  bool enable_events = false;
  int32_t max_events =
      65536;  // kept between drains; older ones stay, newer ones are counted as lost
  double residency_sample_rate =
      0.01;  // share of allocations that are followed until eviction; 0: off
  int32_t max_residency_samples = 4096;  // kept between drains
  // Blocks of host memory for what leaves the device's, block 0 (unused) included; 0: none.
  int32_t num_host_blocks = 0;
  // Whether reading num_tokens tokens back from the host, behind num_cached_tokens, is sooner done
  // than computing them. Must be a pure function (S-8); null: always.
  std::function<bool(int32_t num_cached_tokens, int32_t num_tokens)> load_pays = {};
};

// What the cache offers a sequence: its first num_tokens tokens are there.
struct PrefixHit {
  int32_t num_tokens = 0;
  // num_tokens ends inside a cached block, which must be copied before it is written.
  bool partial_block = false;
  // Set when the tokens come from a running sequence's table (fork) and not from the prefix cache.
  bool from_fork = false;
  KvSequenceId fork_source{};
};

struct AllocateArgs {
  std::span<const TokenId> tokens{};  // all known tokens of the sequence
  int32_t num_computed_tokens = 0;    // 0 when `hit` is given
  PrefixHit hit{};                    // only on the first allocation after open() or free()
  int32_t num_new_tokens = 0;         // to be computed in this step, >= 1
  int32_t num_lookahead_tokens = 0;
  // Refuse unless this many tokens of the sequence could be held now, although only the new ones
  // are allocated.
  int32_t num_full_tokens = 0;
  // Free blocks that must remain afterwards (watermark, what others were promised).
  int32_t num_reserved_blocks = 0;
};

struct KvStats {
  int32_t num_usable_blocks = 0;  // without the null block
  int32_t num_free_blocks = 0;    // cached ones included
  int32_t num_cached_blocks = 0;  // registered in the prefix cache, in use or free
  int64_t num_allocated_total = 0;
  int64_t num_evicted_total = 0;
  int64_t num_copied_total = 0;
  int64_t num_lost_events = 0;
  int32_t num_host_blocks_kept = 0;  // blocks of host memory with content
  int64_t num_offloaded_total = 0;   // blocks copied to the host
  int64_t num_loaded_total = 0;      // blocks copied back
  // Token slots in referenced blocks, and those of them that hold no computed token.
  int64_t num_reserved_slots = 0;
  int64_t num_unused_slots = 0;
  // Share of usable blocks in use, [0, 1].
  double usage() const {
    return num_usable_blocks == 0 ? 0.0
                                  : 1.0 - static_cast<double>(num_free_blocks) / num_usable_blocks;
  }
};

struct KvProbe {
  int32_t num_tokens = 0;  // in whole cached blocks, from the start
  int32_t num_blocks = 0;  // the same in blocks of one group
};

enum class KvBlockState : uint8_t { kNull, kFree, kCached, kInUse, kShared };

struct KvBlockView {
  KvBlockState state = KvBlockState::kFree;
  bool registered = false;  // in the prefix cache
  int32_t ref_cnt = 0;
  RequestId owner{};  // one of the requests that hold it; meaningful when in use or shared
};

class KvManager {
 public:
  // `num_blocks` counts the null block; at least 2. `spec` has at least one group and block_size
  // >= 1.
  KvManager(KvSpec spec, int32_t num_blocks, KvOptions options);
  // Memory that the books of so many blocks take, nearly.
  static int64_t book_bytes(int32_t num_blocks, int32_t block_size);
  KvManager(const KvManager&) = delete;
  KvManager& operator=(const KvManager&) = delete;

  const KvSpec& spec() const { return spec_; }
  const KvOptions& options() const { return options_; }
  int32_t block_size() const { return spec_.block_size; }
  int32_t num_groups() const { return static_cast<int32_t>(spec_.groups.size()); }
  bool has_window() const { return windowed_; }  // blocks leave tables while they grow
  int32_t num_usable_blocks() const { return pool_.num_blocks() - 1; }
  int32_t num_free_blocks() const { return pool_.num_free(); }

  // Starts a step: sets the time and unpins the sources of the previous step's block copies. Plans
  // must be executed in the order in which they were made.
  void begin_step(int64_t now_us);

  // --- Sequences ---
  // A new, empty sequence. It must be closed.
  KvSequenceId open(RequestId owner, const CacheKeys& keys);
  // Frees its blocks and forgets it.
  void close(KvSequenceId sequence);
  // Gives all blocks back, the tail first to be evicted; the sequence stays open and may allocate
  // anew.
  void free(KvSequenceId sequence);

  // The longest prefix that every group has, at most tokens.size() - 1 tokens. Changes no block.
  PrefixHit lookup(KvSequenceId sequence, std::span<const TokenId> tokens);
  // The first `num_tokens` tokens of `source` as a hit for another sequence with the same tokens
  // and keys; an empty hit when source has not computed them or has freed blocks that are needed.
  PrefixHit fork_hit(KvSequenceId source, int32_t num_tokens) const;
  // The same as lookup(), but in whole blocks, for when there is no room for a copy.
  PrefixHit lookup_whole_blocks(KvSequenceId sequence, std::span<const TokenId> tokens);

  bool has_host_tier() const { return host_.has_value(); }
  // Brings back from the host what continues the cached prefix of `tokens`, when that pays, so that
  // lookup() finds it. May evict what nobody uses; call it when there is room for the sequence.
  // Returns by how many blocks the cached prefix is longer.
  int32_t promote(KvSequenceId sequence, std::span<const TokenId> tokens);

  // Makes room for computed + hit + new + look-ahead tokens, or changes nothing and returns false.
  // Blocks that left the window are freed first, either way. Copies needed are in copies() until
  // the next begin_step().
  bool allocate(KvSequenceId sequence, const AllocateArgs& args);
  // The KV of the first num_computed_tokens of `tokens` is written and final: registers full
  // blocks.
  void commit(KvSequenceId sequence, std::span<const TokenId> tokens, int32_t num_computed_tokens);

  // Keeps the blocks of a hit from eviction while others allocate. At most one such hold; unhold()
  // ends it.
  void hold(KvSequenceId sequence, std::span<const TokenId> tokens, const PrefixHit& hit);
  void unhold();

  // --- Arithmetic ---
  // Blocks, all groups together, to hold `num_tokens` of one sequence.
  int32_t blocks_for(int64_t num_tokens) const;
  // Blocks that growing the sequence to `num_tokens` would still take.
  int32_t blocks_missing(KvSequenceId sequence, int64_t num_tokens) const;
  // allocate() of what reaches no further than num_tokens would change nothing and succeed.
  bool has_slots(KvSequenceId sequence, int64_t num_tokens) const {
    return !windowed_ && num_tokens <= at(sequence).capacity_tokens;
  }
  // Blocks that would become free if the sequence were freed, and its tokens in blocks that others
  // hold as well.
  int32_t num_exclusive_blocks(KvSequenceId sequence) const;
  int32_t num_shared_tokens(KvSequenceId sequence) const;

  // --- For the plan ---
  std::span<const BlockCopy> copies() const { return copies_; }
  // Copies between device and host since the last call, in the order in which they must be made,
  // before anything else of the plan and whatever becomes of it.
  void take_host_copies(std::vector<HostBlockCopy>& out);
  // Appends what changed in the sequence's tables since the last call (everything after
  // `whole_table`).
  void append_table_updates(KvSequenceId sequence, int32_t request_index, bool whole_table,
                            std::vector<BlockTableUpdate>& out) {
    if (whole_table || at(sequence).tables_changed)
      append_changes(at(sequence), request_index, whole_table, out);
  }
  // The table of one group, by logical index; valid until the sequence changes.
  std::span<const BlockId> block_table(KvSequenceId sequence, int32_t group) const;

  // --- Looking ---
  KvProbe probe(std::span<const TokenId> tokens, const CacheKeys& keys) const;
  KvStats stats() const;
  // One entry per block, by id. O(blocks + table entries).
  void snapshot(std::vector<KvBlockView>& out) const;
  // Events and samples since the last drain; swaps them into `out`, whose old content is dropped.
  void drain_events(std::vector<KvEvent>& out);
  void drain_residency(std::vector<ResidencySample>& out);
  // KV-1 .. KV-7 as far as they are about this moment; the error names the invariant. O(blocks +
  // table entries).
  Status check_integrity() const;

  // Forgets all cached content. kUnavailable while any block is in use.
  Status reset_prefix_cache();

 private:
  struct GroupTable {
    std::vector<BlockId> blocks;  // by logical index; null blocks where the window has passed
    int32_t num_freed = 0;        // leading null blocks
    int32_t num_sent = 0;         // leading entries that the executor knows
    int32_t num_freed_sent = 0;
  };
  struct Sequence {
    bool open = false;
    RequestId owner;
    int32_t keys = 0;  // PrefixCache key id
    int32_t num_computed_tokens = 0;
    int32_t capacity_tokens = 0;    // slots allocated, from position 0
    int32_t num_committed = 0;      // leading blocks that commit() has dealt with, in every group
    bool tables_changed = false;    // since append_table_updates()
    std::vector<BlockHash> hashes;  // of leading full blocks, computed on demand
    std::vector<GroupTable> groups;
  };

  // Where the tokens of a sequence lie in the cache's key space. `hashes` grows as far as a
  // question needs.
  struct Chain {
    int32_t keys = 0;
    std::span<const TokenId> tokens;
    std::vector<BlockHash>& hashes;
  };
  struct Need {
    int32_t table_size = 0;     // per group, after the allocation
    int64_t num_new = 0;        // blocks to take now
    int64_t num_full = 0;       // blocks to take sooner or later, num_full_tokens considered
    int64_t num_hits_free = 0;  // hit blocks that leave the free list when adopted
  };

  Sequence& at(KvSequenceId id) {
    QUIRE_DCHECK(id.value >= 0 && id.value < static_cast<int32_t>(sequences_.size()));
    return sequences_[static_cast<size_t>(id.value)];
  }
  const Sequence& at(KvSequenceId id) const {
    QUIRE_DCHECK(id.value >= 0 && id.value < static_cast<int32_t>(sequences_.size()));
    return sequences_[static_cast<size_t>(id.value)];
  }
  void append_changes(Sequence& sequence, int32_t request_index, bool whole_table,
                      std::vector<BlockTableUpdate>& out);
  int32_t round_up_to_blocks(int64_t num_tokens) const;
  int64_t most_blocks(const KvGroupSpec& group, int64_t num_tokens,
                      int64_t num_computed_tokens) const;

  bool reads_cache() const;
  void extend(Chain& chain, int32_t num_blocks) const;
  std::optional<BlockId> find_cached(Chain& chain, int32_t group, int32_t index) const;
  BlockContent content_of(Chain& chain, int32_t group, int32_t index) const;
  int32_t num_promotable(Chain& chain, int32_t begin) const;
  BlockId promote_block(Chain& chain, int32_t group, int32_t index);
  int32_t longest_window_hit(Chain& chain, int32_t group, int32_t num_blocks) const;
  int32_t longest_hit_blocks(Chain& chain) const;
  bool all_groups_hold(Chain& chain, int32_t num_tokens) const;
  BlockId hit_block(Chain& chain, const PrefixHit& hit, int32_t group, int32_t index) const;

  Need compute_need(Sequence& sequence, const AllocateArgs& args) const;
  void adopt_hit(Sequence& sequence, const AllocateArgs& args);
  void free_out_of_window(Sequence& sequence);
  void release_tables(Sequence& sequence);
  BlockId take_block();
  void prefetch_next_blocks() const;
  void offload(BlockId block, const BlockContent& content);
  void touch(BlockId block);
  void unref(BlockId block);
  void register_block(const BlockContent& content, BlockId block, int32_t index);
  int64_t num_unused_slots(const Sequence& sequence) const;
  void emit(KvEvent event);
  Status check_tables(std::vector<int32_t>& refs) const;
  Status check_pool(const std::vector<int32_t>& refs) const;
  Status check_cache() const;

  const KvSpec spec_;
  const KvOptions options_;
  const bool windowed_;  // any group has a window
  BlockPool pool_;
  PrefixCache cache_;
  std::optional<HostTier> host_;
  std::vector<HostBlockCopy> host_copies_;  // not yet in a plan
  ResidencySampler residency_;
  std::vector<Sequence> sequences_;
  std::vector<KvSequenceId> free_sequences_;
  std::vector<BlockCopy> copies_;
  std::vector<BlockId> pins_;  // copy sources of this step
  std::vector<BlockId> held_;  // hold()
  std::vector<KvEvent> events_;
  int64_t now_us_ = 0;
  int64_t num_unused_slots_ = 0;
  KvStats totals_;  // only the *_total and num_lost_events fields
};

}  // namespace quire
