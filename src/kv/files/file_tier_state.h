// What writing and reading KV files share: which blocks lie in which file, the sequences, the jobs
// under way.
#pragma once

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
    int32_t num_stored = 0;   // leading blocks that are in files, or have been dealt with
    int32_t num_jobs = 0;     // that read for it
    int32_t num_loads = 0;    // times that something was read for it
    bool has_asked = false;   // load() was called
    uint64_t generation = 0;  // ids of sequences are used again
  };

  FileTierState(const KvSpec& spec, const KvFileOptions& options, BlockStores& stores,
                const PrefixLookup& prefixes)
      : spec(spec),
        options(options),
        stores(stores),
        prefixes(prefixes),
        index(options.capacity_bytes),
        jobs(spec, stores, prefixes),
        epochs(*options.files) {}

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

  int32_t num_groups() const { return static_cast<int32_t>(spec.groups.size()); }
  // Whole blocks of the chain.
  int32_t num_blocks(const BlockChain& chain) const {
    return static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec.block_size));
  }
  Sequence& at(KvSequenceId id) { return sequences[static_cast<size_t>(id.value)]; }
  const Sequence& at(KvSequenceId id) const { return sequences[static_cast<size_t>(id.value)]; }
  BlockStore& blocks() const { return stores.at(KvPool::kAttention); }
  HostTier& host() const { return blocks().host()->tier(); }
  bool has_untaken_copies() const { return blocks().host()->any(); }
};

}  // namespace quire
