// FileStores writes KV to files: full blocks of a sequence, as runs. A plan copies the blocks to
// host memory, where they are pinned; they are written when that plan is done.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "kv/files/file_tier_state.h"

namespace quire {

class FileStores {
 public:
  // What to do with blocks that do not fill a run, or for which memory has no room.
  enum class Tail : uint8_t {
    kLeft,        // blocks that do not fill a run wait for a longer chain
    kWritten,     // blocks that do not fill a run are written; those without room are not
    kAskedAgain,  // like kWritten, but the caller asks again until there is room
  };

  // Borrows the state.
  explicit FileStores(FileTierState& state) : state_(state) {}

  // Writes the blocks of a chain that no file has. Precondition: its tokens are computed.
  void store(KvSequenceId sequence, BlockChain& chain, Tail tail);
  // Ends a job.
  void end(const FileJob& job, KvFileEvent& event);
  // Whether block `index` of the chain, which no file has whole, is being written or may be once
  // there is room; states_may_come() tells the same of the states after num_tokens tokens.
  bool may_come(KvSequenceId sequence, const BlockChain& chain, int32_t index);
  bool states_may_come(KvSequenceId sequence, const BlockChain& chain, int32_t num_tokens);
  // Removes files until num_bytes more fit; false if they cannot.
  bool make_room(int64_t num_bytes);

 private:
  bool is_off() const { return state_.now_us < off_until_us_; }
  bool is_being_stored(const KvHash& hash) const;
  bool is_stored(const KvHash& hash) const;
  bool is_block_stored(KvSequenceId sequence, const BlockChain& chain, int32_t index);
  void use_block(KvSequenceId sequence, const BlockChain& chain, int32_t index);
  void store_blocks(KvSequenceId sequence, BlockChain& chain, Tail tail);
  void store_states(KvSequenceId sequence, BlockChain& chain, Tail tail);
  int32_t store_run(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end);
  bool pin_block(KvPool pool, BlockChain& chain, int32_t index, std::vector<BlockId>& pinned);
  void begin_job(FileJob job, KvStoreJob store);

  FileTierState& state_;
  std::set<std::pair<uint64_t, uint64_t>> being_stored_;  // hashes of their cells
  int64_t bytes_being_stored_ = 0;
  int64_t off_until_us_ = 0;
};

}  // namespace quire
