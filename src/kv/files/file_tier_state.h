// The state that writing and reading KV files share: the index of cells, the sequences and the jobs
// under way.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_files.h"
#include "core/kv_spec.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/host_copies.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/kv_options.h"
#include "kv/files/copy_epochs.h"
#include "kv/files/file_index.h"
#include "kv/files/file_jobs.h"

namespace quire {

struct FileTierState {
  struct Sequence {
    int32_t num_stored = 0;          // leading blocks that are in files or not to be stored
    int32_t num_state_tokens = 0;    // tokens up to the last states of which the same holds
    int32_t num_jobs = 0;            // jobs under way that read for it
    int32_t num_loads = 0;           // how often something was read for it
    bool has_asked = false;          // load() was called
    uint64_t generation = 0;         // since ids of sequences are used again
    std::vector<KvHash> cells = {};  // hashes of its leading tokens, computed on demand
  };

  FileTierState(const KvSpec& spec, const KvFileOptions& options, BlockStores& stores,
                const PrefixLookup& prefixes)
      : spec(spec),
        options(options),
        stores(stores),
        prefixes(prefixes),
        index(options.capacity_bytes),
        jobs(spec, stores, prefixes),
        epochs(*options.files) {
    for (size_t g = 0; g < spec.groups.size(); ++g)
      groups[static_cast<size_t>(spec.groups[g].pool())].push_back(static_cast<int32_t>(g));
  }

  const KvSpec& spec;
  const KvFileOptions options;
  BlockStores& stores;
  const PrefixLookup& prefixes;
  FileIndex index;
  FileJobs jobs;
  CopyEpochs epochs;
  std::vector<Sequence> sequences;  // by id
  int64_t now_us = 0;
  KvFileStats totals;

  std::array<std::vector<int32_t>, kNumKvPools> groups;  // groups of each pool

  // --- Cells ---
  int32_t block_cells() const { return spec.block_size / options.cell_tokens; }
  // Returns the hash of cell `index` of the chain, which is the chain of sequence `id`.
  KvHash cell(KvSequenceId id, const BlockChain& chain, int32_t index);
  // Returns the hash by which the states after the first `num_tokens` tokens are found.
  KvHash state(KvSequenceId id, const BlockChain& chain, int32_t num_tokens);
  // Returns the hashes of cells [first, first + count) of the chain.
  std::vector<KvHash> cells(KvSequenceId id, const BlockChain& chain, int32_t first, int32_t count);

  // --- Blocks ---
  const std::vector<int32_t>& groups_of(KvPool pool) const {
    return groups[static_cast<size_t>(pool)];
  }
  bool has_states() const { return spec.uses(KvPool::kState); }
  // Returns how many whole blocks the chain has.
  int32_t num_blocks(const BlockChain& chain) const {
    return static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec.block_size));
  }
  Sequence& at(KvSequenceId id) { return sequences[static_cast<size_t>(id.value)]; }
  const Sequence& at(KvSequenceId id) const { return sequences[static_cast<size_t>(id.value)]; }
  HostTier& host(KvPool pool) const { return stores.at(pool).host()->tier(); }
  bool has_untaken_copies() const { return stores.has_untaken_copies(); }
};

}  // namespace quire
