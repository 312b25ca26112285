// FileLoads reads KV from files: if reading pays, it loads the blocks that continue the part of a
// prompt in memory into host memory, from where Promotion takes them.
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

  // What memory has of a chain's tokens.
  struct InMemory {
    int32_t num_usable_blocks = 0;  // from which a sequence could continue
    int32_t num_blocks = 0;         // of KvPool::kAttention, including those in host memory
    // Whether memory has state block `index`.
    std::function<bool(int32_t index)> has_snapshot;
  };
  // Returns whether the sequence should wait, because KV behind that is being read from files or,
  // if that pays, is requested by this call.
  bool load(KvSequenceId sequence, BlockChain& chain, const InMemory& memory);
  // Ends a job.
  void end(const FileJob& job, const KvFileEvent& event);

 private:
  // What to read: blocks from `begin` on, and the states after `snapshot` tokens.
  struct Wanted {
    int32_t begin = 0;
    int32_t count = 0;
    int32_t snapshot = 0;  // 0: memory has the states, or there are none
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
  double bytes_per_us_ = 1000;  // speed of reading; 1 GB/s until it is measured
};

}  // namespace quire
