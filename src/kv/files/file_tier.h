// FileTier: KV that is kept in files, below the host's memory. It decides what is written, read and
// removed; KvFiles does it on other threads, and poll() hears of it.
//
//   written  FileStores: full blocks of a sequence, when a run of them is complete or the sequence
//            asks
//   read     FileLoads: blocks that continue what memory has of a prompt, when reading pays
//
// Host blocks that a plan still copies from or to are left alone until it is done (on_step_done).
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

  // Borrows all but the options, which name the files. Host memory is there.
  FileTier(const KvSpec& spec, const KvFileOptions& options, BlockStores& stores,
           const PrefixLookup& prefixes);

  // --- Sequences ---
  void open(KvSequenceId sequence);
  void close(KvSequenceId sequence) { open(sequence); }
  // FileStores::store().
  void store(KvSequenceId sequence, BlockChain& chain, Tail tail) {
    stores_.store(sequence, chain, tail);
  }
  // What files have of the chain's start, as far as another engine could go on from.
  struct Stored {
    int32_t num_tokens = 0;
    std::vector<std::string> files;
    bool is_growing = false;  // more is being written, or may be once there is room
  };
  Stored stored(KvSequenceId sequence, const BlockChain& chain);
  // Keeps the files from making room for others until then; calls come in order of time.
  void lease(std::vector<std::string> files, int64_t until_us);
  // FileLoads::load().
  bool load(KvSequenceId sequence, BlockChain& chain, const FileLoads::InMemory& memory) {
    return loads_.load(sequence, chain, memory);
  }

  // --- Steps ---
  // Takes the outcomes of reading and writing.
  void poll(int64_t now_us);
  // Says that the copies that are planned are in the plan of this step, and then that it is done.
  void on_copies_taken(uint64_t step_id) { state_.epochs.on_copies_taken(step_id); }
  void on_step_done(uint64_t step_id) { state_.epochs.on_step_done(step_id); }
  // What plans were still to copy is not going to be worth anything: it is not written.
  void forget_copies();
  // Copies wait for a plan to be in, although nobody may be scheduled.
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
  std::deque<Lease> leases_;  // in order of time
  uint64_t num_generations_ = 0;
  std::vector<KvFileEvent> events_;
};

}  // namespace quire
