// KvManager: the KV cache of one model as the scheduler sees it. Pure bookkeeping of ids and counts
// (law L1).
//
// It combines BlockStores (the content of the blocks of each pool), BlockTables (the blocks of each
// sequence) and PrefixLookup (the cached part of a prompt). One sequence is one request's stay in
// the cache; the scheduler opens it, grows it, commits what was computed, and closes it. Normative
// contract: kv/README.md; invariants KV-1 .. KV-7: docs/invariants.md.
//
// One thread may use it. It reads no clock: begin_step() sets the time.
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

// Returns the approximate bytes that the bookkeeping of this many blocks takes.
int64_t kv_book_bytes(int32_t num_blocks, int32_t block_size);

class KvManager {
 public:
  // `num_blocks` is that of KvPool::kAttention, the null block included; at least 2 if a group
  // needs it. The options have the number of state blocks. `spec` has at least one group, and block
  // sizes >= 1.
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
  // are the media items among its tokens.
  KvSequenceId open(RequestId owner, const CacheKeys& keys, std::span<const MediaSpan> media = {});
  void close(KvSequenceId sequence);

  // --- Cached prefixes ---
  // Returns the longest prefix that every group has, at most tokens.size() - 1 tokens. Changes no
  // block.
  PrefixHit lookup(KvSequenceId sequence, std::span<const TokenId> tokens);
  // Does the same in whole blocks, for when there is no room to copy a block.
  PrefixHit lookup_whole_blocks(KvSequenceId sequence, std::span<const TokenId> tokens);
  // Keeps the blocks of a hit from eviction while others allocate.
  BlockHold hold(KvSequenceId sequence, std::span<const TokenId> tokens, const PrefixHit& hit);
  // Returns what lookup_whole_blocks() would find for a sequence with these keys, except that the
  // last token may be cached too.
  KvProbe probe(std::span<const TokenId> tokens, const CacheKeys& keys,
                std::span<const MediaSpan> media = {}) const;
  // Forgets all cached content except that of files. kUnavailable while any block is in use.
  Status reset_prefix_cache();

  // --- Host tier ---
  // If that pays, brings KV that continues the cached prefix of `tokens` back from the host, so
  // that lookup() finds it. May evict unused content; call it when there is room for the sequence.
  // Returns by how many blocks the cached prefix has grown.
  int32_t promote(KvSequenceId sequence, std::span<const TokenId> tokens);
  // Appends the copies between device and host since the last call, for the plan of this step, in
  // the order in which they must be made. They come before anything else of the plan, and are made
  // even if the step fails.
  void take_host_copies(uint64_t step_id, std::vector<HostBlockCopy>& out);

  // --- Files ---
  FileTier* files() { return files_ ? &*files_ : nullptr; }
  // Returns true if KV of files that continues the cached prefix of `tokens` is being loaded into
  // host memory, or is requested by this call because reading pays: the request waits, then calls
  // promote().
  bool load_from_files(KvSequenceId sequence, std::span<const TokenId> tokens);
  // Writes complete runs of the blocks of `tokens` to files; with `whole`, all of them.
  // Precondition: the tokens are computed and registered.
  void store_in_files(KvSequenceId sequence, std::span<const TokenId> tokens, bool whole);
  // Says that the step's copies have been made, which jobs of files wait for.
  void on_step_done(uint64_t step_id) {
    if (files_) files_->on_step_done(step_id);
  }

  // --- Views ---
  // Statistics of one pool; all zero if it is not used. Copies and slots are those of
  // KvPool::kAttention.
  KvStats stats(KvPool pool = KvPool::kAttention) const;
  // Replaces `out` by the events of all pools since their last drain.
  void drain_events(std::vector<KvEvent>& out);
  void drain_residency(std::vector<ResidencySample>& out);
  // Checks KV-1 .. KV-7 as far as they concern one moment; the error names the invariant. Takes
  // O(blocks + table entries).
  Status check_integrity() const;

 private:
  const KvSpec spec_;
  const KvOptions options_;
  BlockStores stores_;
  const PrefixLookup prefixes_;
  BlockTables tables_;
  std::optional<Promotion> promotion_;  // only if there is host memory
  std::optional<FileTier> files_;
};

}  // namespace quire
