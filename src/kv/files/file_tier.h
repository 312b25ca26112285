// FileTier: KV that is kept in files, below the host's memory. It decides what is written, read and
// removed; KvFiles does it on other threads, and poll() hears of it.
//
//   written  full blocks of a sequence, when a run of them is complete or the sequence asks. They are
//            copied to host memory by a plan, pinned there, and written when that plan is done
//   read     blocks that continue what memory has of a prompt, when reading pays, into host memory;
//            a sequence waits for them, and promotion takes them from there
//
// Host blocks that a plan still copies from or to are left alone until it is done (on_step_done). One
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "core/kv_files.h"
#include "core/kv_spec.h"
#include "kv/blocks/block_stores.h"
#include "kv/blocks/prefix_lookup.h"
#include "kv/books/kv_options.h"
#include "kv/files/file_index.h"

namespace quire {

class FileTier {
 public:
  // Borrows all but the options, which name the files. Host memory is there.
  FileTier(const KvSpec& spec, const KvFileOptions& options, BlockStores& stores,
           const PrefixLookup& prefixes);

  // --- Sequences ---
  void open(KvSequenceId sequence);
  void close(KvSequenceId sequence) { open(sequence); }
  // What becomes of blocks that make no whole run, or that memory has no room for now.
  enum class Tail : uint8_t {
    kLeft,        // those that make no run are left, for a longer chain
    kWritten,     // those that make no run are written; those without room are not
    kAskedAgain,  // as kWritten, and whoever asks will do so again until there is room
  };
  // The chain's tokens are computed: its blocks that no file has are written.
  void store(KvSequenceId sequence, BlockChain& chain, Tail tail);
  // What files have of the chain's leading blocks.
  struct Stored {
    int32_t num_blocks = 0;
    std::vector<std::string> files;
    bool is_growing = false;  // more is being written, or may be once there is room
  };
  Stored stored(KvSequenceId sequence, BlockChain& chain) const;
  // Keeps the files from making room for others until then; calls come in order of time.
  void lease(std::vector<std::string> files, int64_t until_us);
  // Blocks that files have from block `begin` of the chain on are on their way, or are now asked for
  // because that pays: the sequence should wait.
  bool load(KvSequenceId sequence, BlockChain& chain, int32_t begin);

  // --- Steps ---
  // Hears what came of reading and writing.
  void poll(int64_t now_us);
  // The copies that were planned so far are in the plan of this step; then, it is done.
  void on_copies_taken(uint64_t step_id);
  void on_step_done(uint64_t step_id);
  // What plans were still to copy is not going to be worth anything: it is not written.
  void forget_copies();
  // Copies wait for a plan to be in, although nobody may be scheduled.
  bool wants_a_plan() const { return has_untaken_copies() && !waiting_.empty(); }

  KvFileStats stats() const;

 private:
  struct Sequence {
    int32_t num_stored = 0;   // leading blocks that are in files, or have been dealt with
    int32_t num_jobs = 0;     // that read for it
    int32_t num_loads = 0;    // times that something was read for it
    bool has_asked = false;   // load() was called
    uint64_t generation = 0;  // ids of sequences are used again
  };
  struct Job {
    bool is_store = false;
    KvSequenceId sequence{};
    uint64_t generation = 0;
    int32_t keys = 0;  // of the chain, in use until the job ends
    BlockHash parent;  // of the first block
    int32_t first_block = 0;
    int32_t num_blocks = 0;
    std::vector<KvHash> hashes;
    std::vector<TokenId> tokens;       // of the blocks
    std::vector<BlockId> host_blocks;  // [num_blocks][groups]
    std::string file;                  // that is read
    int64_t num_bytes = 0;             // that are written
  };
  // Waits for copies to be made before another thread may touch its host blocks.
  struct Waiting {
    uint64_t epoch = 0;
    std::optional<KvStoreJob> store;
    std::optional<KvLoadJob> load;
  };

  BlockStore& blocks() const { return stores_.at(KvPool::kAttention); }
  HostTier& host() const { return blocks().host(); }
  bool has_untaken_copies() const { return blocks().has_host_copies(); }
  KvHash hash(BlockChain& chain, int32_t index) const;
  BlockContent content(const Job& job, int32_t index, int32_t group) const;
  Job new_job(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end) const;

  int32_t store_run(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end);
  bool pin_block(BlockChain& chain, int32_t index, std::vector<BlockId>& pinned);
  bool reserve_block(std::vector<BlockId>& reserved);
  bool is_stored(const KvHash& hash) const;
  bool make_room(int64_t num_bytes);
  uint64_t begin_job(Job job);
  int32_t num_in_files(BlockChain& chain, int32_t begin) const;
  bool reading_pays(int32_t num_cached_blocks, int32_t num_blocks) const;
  int32_t load_from_file(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end);
  void hand_on(Waiting waiting);
  void dispatch(Waiting& waiting);

  void on_event(KvFileEvent& event);
  void end_store(const Job& job, KvFileEvent& event);
  void end_load(const Job& job, const KvFileEvent& event);

  const KvSpec& spec_;
  const KvFileOptions options_;
  BlockStores& stores_;
  const PrefixLookup& prefixes_;
  FileIndex index_;
  std::vector<Sequence> sequences_;  // by id
  uint64_t num_generations_ = 0;
  std::unordered_map<uint64_t, Job> jobs_;
  std::set<std::pair<uint64_t, uint64_t>> being_stored_;  // hashes of blocks
  int64_t bytes_being_stored_ = 0;
  uint64_t num_jobs_ = 0;
  std::deque<Waiting> waiting_;  // in order of epoch
  struct Lease {
    int64_t until_us = 0;
    std::vector<std::string> files;
  };
  std::deque<Lease> leases_;  // in order of time
  // Copies taken by a plan end an epoch; epochs up to done_epoch_ have been made.
  uint64_t epoch_ = 0, done_epoch_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> steps_;  // (step, epoch that it ended), not yet done
  double bytes_per_us_ = 1000;  // of reading, before anything was measured: 1 GB/s
  int64_t now_us_ = 0;
  int64_t stores_off_until_us_ = 0;
  std::vector<KvFileEvent> events_;
  KvFileStats totals_;
};

}  // namespace quire
