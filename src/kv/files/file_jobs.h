// FileJobs: the jobs of the file tier that other threads do, which write or read blocks of a chain.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "core/kv_files.h"
#include "core/kv_spec.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"

namespace quire {

struct FileJob {
  bool is_store = false;
  KvPool pool = KvPool::kAttention;
  KvSequenceId sequence{};
  uint64_t generation = 0;  // of the sequence, since ids are used again
  int32_t keys = 0;         // cache key id of the chain, in use until the job ends
  BlockHash parent;         // hash of the block before the first one
  int32_t first_block = 0;
  int32_t num_blocks = 0;
  std::vector<BlockHash> hashes;     // of the blocks
  std::vector<KvHash> cells;         // that are written
  std::vector<TokenId> tokens;       // of the blocks
  std::vector<BlockId> host_blocks;  // [num_blocks][groups of the pool]
  std::vector<std::string> files;    // that are read
  int64_t num_bytes = 0;             // that are written
};

class FileJobs {
 public:
  // Borrows all three.
  FileJobs(const KvSpec& spec, BlockStores& stores, const PrefixLookup& prefixes)
      : spec_(spec), stores_(stores), prefixes_(prefixes) {}

  // Returns the first `num_tokens` tokens of the chain in the form that files use.
  KvPrefix prefix(const BlockChain& chain, int32_t num_tokens) const;
  // Makes a job for blocks [begin, end) of the chain in a pool.
  FileJob make(KvPool pool, KvSequenceId sequence, uint64_t generation, BlockChain& chain,
               int32_t begin, int32_t end) const;
  // Returns the content of the job's block `index` in `group`, which is an index among all groups.
  BlockContent content(const FileJob& job, int32_t index, int32_t group) const;
  const CacheKeys& keys(const FileJob& job) const { return stores_.keys().keys(job.keys); }

  // Starts a job; returns its id.
  uint64_t begin(FileJob job);
  // Removes and returns a job that has ended. The caller calls release() when it no longer needs
  // the job's keys.
  FileJob take(uint64_t id);
  void release(const FileJob& job) { stores_.keys().release(job.keys); }

 private:
  const KvSpec& spec_;
  BlockStores& stores_;
  const PrefixLookup& prefixes_;
  std::unordered_map<uint64_t, FileJob> jobs_;
  uint64_t num_jobs_ = 0;
};

}  // namespace quire
