// KvManager: the KV cache of one model as the scheduler sees it. Pure bookkeeping of ids and counts
// (law L1).
//
// It puts the parts together: BlockStores (what the blocks of each pool contain), BlockTables (which
// sequence holds them) and PrefixLookup (what of a prompt is there). One sequence is one request's stay in the
// cache; the scheduler opens it, grows it, commits what was computed, and closes it. Normative
// contract: kv/README.md; invariants KV-1 .. KV-7: docs/invariants.md.
//
// One thread may use it. Nothing here reads a clock: begin_step() brings the time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/kv_spec.h"
#include "core/request.h"
#include "core/step.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/block_counts.h"
#include "kv/books/kv_events.h"
#include "kv/books/kv_options.h"
#include "kv/files/file_tier.h"
#include "kv/promotion.h"
#include "kv/tables/block_tables.h"

namespace quire {

struct KvProbe {
  int32_t num_tokens = 0;  // in whole cached blocks, from the start
  int32_t num_blocks = 0;  // the same in blocks of KvSpec::block_size
};

// Returns about how many bytes the books of so many blocks take.
int64_t kv_book_bytes(int32_t num_blocks, int32_t block_size);

class KvManager {
 public:
  // `num_blocks`: of KvPool::kAttention, the null block included; at least 2 if a group needs it.
  // Those of states are in the options. `spec` has at least one group, and block sizes >= 1.
  KvManager(KvSpec spec, int32_t num_blocks, KvOptions options);
  KvManager(const KvManager&) = delete;
  KvManager& operator=(const KvManager&) = delete;

  const KvOptions& options() const { return options_; }
  const KvSpec& spec() const { return spec_; }
  int32_t block_size() const { return spec_.block_size; }
  const BlockStores& stores() const { return stores_; }
  BlockTables& tables() { return tables_; }
  const BlockTables& tables() const { return tables_; }

  // Starts a step: sets the time and unpins the sources of the previous step's block copies. Plans
  // must be executed in the order in which they were made.
  void begin_step(int64_t now_us);

  // Opens a new, empty sequence. It must be closed, which frees its blocks and forgets it. `media`
  // is what stands in its tokens beside text.
  KvSequenceId open(RequestId owner, const CacheKeys& keys, std::span<const MediaSpan> media = {});
  void close(KvSequenceId sequence);

  // --- Cached prefixes ---
  // The longest prefix that every group has, at most tokens.size() - 1 tokens. Changes no block.
  PrefixHit lookup(KvSequenceId sequence, std::span<const TokenId> tokens);
  // Does the same in whole blocks, for when there is no room for a copy.
  PrefixHit lookup_whole_blocks(KvSequenceId sequence, std::span<const TokenId> tokens);
  // Keeps the blocks of a hit from eviction while others allocate.
  BlockHold hold(KvSequenceId sequence, std::span<const TokenId> tokens, const PrefixHit& hit);
  // Returns what lookup_whole_blocks() would find for a sequence with these keys, the last token
  // included.
  KvProbe probe(std::span<const TokenId> tokens, const CacheKeys& keys,
                std::span<const MediaSpan> media = {}) const;
  // Forgets all cached content but files. kUnavailable while any block is in use.
  Status reset_prefix_cache();

  // --- Host tier ---
  // Brings back from the host what continues the cached prefix of `tokens`, when that pays, so that
  // lookup() finds it. May evict what nobody uses; call it when there is room for the sequence.
  // Returns by how many blocks the cached prefix is longer.
  int32_t promote(KvSequenceId sequence, std::span<const TokenId> tokens);
  // Copies between device and host since the last call, for the plan of this step, in the order in
  // which they must be made, before anything else of the plan and whatever becomes of it.
  void take_host_copies(uint64_t step_id, std::vector<HostBlockCopy>& out);

  // --- Files ---
  FileTier* files() { return files_ ? &*files_ : nullptr; }
  // What files have behind the cached prefix of `tokens` is on its way to the host, or is asked for
  // now because reading pays: wait, then promote().
  bool load_from_files(KvSequenceId sequence, std::span<const TokenId> tokens);
  // These tokens are computed and registered: complete runs of their blocks go to files, and with
  // `whole` all of them.
  void store_in_files(KvSequenceId sequence, std::span<const TokenId> tokens, bool whole);
  // The step's copies have been made. Files wait for it.
  void on_step_done(uint64_t step_id) {
    if (files_) files_->on_step_done(step_id);
  }

  // --- Looking ---
  // Of one pool; all zero when it is not used. Copies and slots are those of KvPool::kAttention.
  KvStats stats(KvPool pool = KvPool::kAttention) const;
  // Events and samples since the last drain of all pools; they replace what is in `out`.
  void drain_events(std::vector<KvEvent>& out);
  void drain_residency(std::vector<ResidencySample>& out);
  // Checks KV-1 .. KV-7 as far as they are about this moment; the error names the invariant. It
  // takes O(blocks + table entries).
  Status check_integrity() const;

 private:
  const KvSpec spec_;
  const KvOptions options_;
  BlockStores stores_;
  const PrefixLookup prefixes_;
  BlockTables tables_;
  std::optional<Promotion> promotion_;  // where there is host memory
  std::optional<FileTier> files_;
};

}  // namespace quire
