// FileLoads reads KV from files: blocks that continue what memory has of a prompt go into host
// memory when reading pays, and promotion takes them from there.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kv/files/file_tier_state.h"

namespace quire {

class FileLoads {
 public:
  // Borrows the state.
  explicit FileLoads(FileTierState& state) : state_(state) {}

  // What memory has of a chain.
  struct InMemory {
    int32_t num_usable_blocks = 0;  // that a sequence can go on from now
    int32_t num_blocks = 0;         // of KvPool::kAttention, the host's included
    // Whether memory has block `index` of the states.
    std::function<bool(int32_t index)> has_snapshot;
  };
  // What files have behind that is on its way, or is now asked for because that pays: the sequence
  // should wait.
  bool load(KvSequenceId sequence, BlockChain& chain, const InMemory& memory);
  // The job is over.
  void end(const FileJob& job, const KvFileEvent& event);

 private:
  // What is to be read: blocks from `begin` on, and the states behind `snapshot` tokens.
  struct Wanted {
    int32_t begin = 0;
    int32_t count = 0;
    int32_t snapshot = 0;  // 0: memory has them, or there are none
    bool any() const { return count > 0 || snapshot > 0; }
  };
  bool has_block(KvSequenceId sequence, const BlockChain& chain, int32_t index);
  Wanted wanted(KvSequenceId sequence, const BlockChain& chain, const InMemory& memory);
  bool pays(const InMemory& memory, const Wanted& wanted) const;
  bool reserve_block(KvPool pool, std::vector<BlockId>& reserved);
  bool add_sources(KvSequenceId sequence, const BlockChain& chain, int32_t block, bool may_begin,
                   std::vector<KvSource>& sources);
  int32_t load_run(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end);
  void load_states(KvSequenceId sequence, BlockChain& chain, int32_t num_tokens);
  void begin_job(FileJob job, KvLoadJob load);

  FileTierState& state_;
  double bytes_per_us_ = 1000;  // of reading, before anything was measured: 1 GB/s
};

}  // namespace quire
