// FileTier: KV that is kept in files, below host memory. It decides what is written, read and
// removed. KvFiles does the work on other threads, and poll() takes the results.
//
//   written  FileStores: full blocks of a sequence, when a run of them is complete or when asked
//   read     FileLoads: blocks that continue the part of a prompt in memory, when reading pays
//
// Host blocks that a plan still copies from or to are not touched until it is done (on_step_done).
// One thread may use it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "kv/files/file_loads.h"
#include "kv/files/file_stores.h"
#include "kv/files/file_tier_state.h"

namespace quire {

class FileTier {
 public:
  using Tail = FileStores::Tail;

  // Borrows all but the options, which name the files. Precondition: there is host memory.
  FileTier(const KvSpec& spec, const KvFileOptions& options, BlockStores& stores,
           const PrefixLookup& prefixes);

  // --- Sequences ---
  void open(KvSequenceId sequence);
  void close(KvSequenceId sequence) { open(sequence); }
  // FileStores::store().
  void store(KvSequenceId sequence, BlockChain& chain, Tail tail) {
    stores_.store(sequence, chain, tail);
  }
  // The start of a chain that files have, as far as another engine could continue from it.
  struct Stored {
    int32_t num_tokens = 0;
    std::vector<std::string> files;
    bool is_growing = false;  // more is being written, or may be once there is room
  };
  Stored stored(KvSequenceId sequence, const BlockChain& chain);
  // Keeps the files from being removed until until_us, which must not decrease from call to call.
  void lease(std::vector<std::string> files, int64_t until_us);
  // FileLoads::load().
  bool load(KvSequenceId sequence, BlockChain& chain, const FileLoads::InMemory& memory) {
    return loads_.load(sequence, chain, memory);
  }

  // --- Steps ---
  // Takes the outcomes of reading and writing.
  void poll(int64_t now_us);
  // These two say that the planned copies are in the plan of this step, and that the step is done.
  void on_copies_taken(uint64_t step_id) { state_.epochs.on_copies_taken(step_id); }
  void on_step_done(uint64_t step_id) { state_.epochs.on_step_done(step_id); }
  // Drops the writes that wait for copies, because those will not be made.
  void forget_copies();
  // Whether file jobs wait for copies that are not yet in a plan. A plan is then needed even if no
  // request is scheduled.
  bool wants_a_plan() const { return state_.has_untaken_copies() && state_.epochs.any_waiting(); }

  KvFileStats stats() const;

 private:
  void on_event(KvFileEvent& event);
  Stored stored_blocks(KvSequenceId sequence, const BlockChain& chain);

  struct Lease {
    int64_t until_us = 0;
    std::vector<std::string> files;
  };
  FileTierState state_;
  FileStores stores_;
  FileLoads loads_;
  std::deque<Lease> leases_;  // in order of until_us
  uint64_t num_generations_ = 0;
  std::vector<KvFileEvent> events_;
};

}  // namespace quire
