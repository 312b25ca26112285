// FileStores writes KV to files: full blocks of a sequence, as runs. A plan copies them to host
// memory, where they are pinned, and they are written when that plan is done.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "kv/files/file_tier_state.h"

namespace quire {

class FileStores {
 public:
  // What becomes of blocks that make no whole run, or that memory has no room for now.
  enum class Tail : uint8_t {
    kLeft,        // those that make no run are left, for a longer chain
    kWritten,     // those that make no run are written; those without room are not
    kAskedAgain,  // as kWritten, and whoever asks will do so again until there is room
  };

  // Borrows the state.
  explicit FileStores(FileTierState& state) : state_(state) {}

  // The chain's tokens are computed: its blocks that no file has are written.
  void store(KvSequenceId sequence, BlockChain& chain, Tail tail);
  // The job is over.
  void end(const FileJob& job, KvFileEvent& event);
  // Whether block `index` of the chain, which no file has whole, is being written or may be once there
  // is room; and the same of the states behind so many tokens.
  bool may_come(KvSequenceId sequence, const BlockChain& chain, int32_t index);
  bool states_may_come(KvSequenceId sequence, const BlockChain& chain, int32_t num_tokens);
  // Removes files until so many bytes more have room.
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
  std::set<std::pair<uint64_t, uint64_t>> being_stored_;  // hashes of cells
  int64_t bytes_being_stored_ = 0;
  int64_t off_until_us_ = 0;
};

}  // namespace quire
