// Reading KV from files: blocks that continue what memory has of a prompt, when reading pays, into
// host memory, from which promotion takes them.
#pragma once

#include <cstdint>
#include <vector>

#include "kv/files/file_tier_state.h"

namespace quire {

class FileLoads {
 public:
  // Borrows the state.
  explicit FileLoads(FileTierState& state) : state_(state) {}

  // Blocks that files have from block `begin` of the chain on are on their way, or are now asked for
  // because that pays: the sequence should wait.
  bool load(KvSequenceId sequence, BlockChain& chain, int32_t begin);
  // The job is over.
  void end(const FileJob& job, const KvFileEvent& event);

 private:
  int32_t num_in_files(BlockChain& chain, int32_t begin) const;
  bool pays(int32_t num_cached_blocks, int32_t num_blocks) const;
  bool reserve_block(std::vector<BlockId>& reserved);
  int32_t load_from_file(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end);

  FileTierState& state_;
  double bytes_per_us_ = 1000;  // of reading, before anything was measured: 1 GB/s
};

}  // namespace quire
