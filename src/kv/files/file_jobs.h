// FileJobs are what other threads do for the file tier: they write or read blocks of a chain.
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
  uint64_t generation = 0;  // of the sequence: ids are used again
  int32_t keys = 0;         // of the chain, in use until the job ends
  BlockHash parent;         // of the first block
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
  // Borrows all of them.
  FileJobs(const KvSpec& spec, BlockStores& stores, const PrefixLookup& prefixes)
      : spec_(spec), stores_(stores), prefixes_(prefixes) {}

  // Returns the first `num_tokens` tokens of the chain as files name them.
  KvPrefix prefix(const BlockChain& chain, int32_t num_tokens) const;
  // Makes a job about blocks [begin, end) of the chain in a pool.
  FileJob make(KvPool pool, KvSequenceId sequence, uint64_t generation, BlockChain& chain,
               int32_t begin, int32_t end) const;
  // `group`: of the model.
  BlockContent content(const FileJob& job, int32_t index, int32_t group) const;
  const CacheKeys& keys(const FileJob& job) const { return stores_.keys().keys(job.keys); }

  // From here on the job is under way; returns its id.
  uint64_t begin(FileJob job);
  // Returns a job that is over. release() must follow, when nothing is asked of it any more.
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
