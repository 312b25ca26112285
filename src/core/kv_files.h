// KvFiles: KV that outlives the process. This is the interface that the block bookkeeping (kv/) has
// to the code that reads and writes files, with the jobs it gives and the events it gets back.
//
// Files do not depend on blocks, ranks and stages, so engines that differ in these can share them.
// They hold cells: the KV of all layers for a few consecutive tokens of one prefix, in a fixed
// order (transfer/kv_cells.h). A run is consecutive cells of one prefix; it is written whole to one
// file, and any of its cells can be read. The states of a sequence after the last token of a cell
// are a run of KvPool::kState with that one cell.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/kv_spec.h"
#include "core/request.h"

namespace quire {

// Tokens of a cell. Every block size is a multiple of it.
inline constexpr int32_t kKvCellTokens = 8;

// Identifies a cell's content for all readers of the files. Equal content has equal hashes; since
// different content may too, a reader compares what it has found before it uses it.
struct KvHash {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const KvHash&, const KvHash&) = default;
};

struct KvRun {
  KvPool pool = KvPool::kAttention;
  int32_t first_cell = 0;      // index of the run's first cell in its sequence
  std::vector<KvHash> hashes;  // one per cell; none: another's file, which only takes space
  std::string file;            // name of the file
  int64_t num_bytes = 0;       // size of the file
  int32_t num_cells() const { return static_cast<int32_t>(hashes.size()); }
};

// Everything that the KV of a prefix depends on, apart from the model.
struct KvPrefix {
  std::vector<TokenId> tokens;  // from the start of the sequence
  CacheKeys keys;
};

struct KvStoreJob {
  uint64_t id = 0;
  KvRun run;                         // the writer sets `file` and `num_bytes`
  KvPrefix prefix;                   // to the end of the run
  std::vector<BlockId> host_blocks;  // [blocks of the run][groups of its pool]
};

// Cells [first_in_run, first_in_run + count) of a file's run.
struct KvSource {
  std::string file;
  int32_t run_first_cell = 0;  // KvRun::first_cell, an index in the sequence
  int32_t first_in_run = 0;
  int32_t count = 0;
};

// Reads consecutive cells of a prefix into whole blocks, after comparing the prefix. A job may have
// any number of sources: where one file's run ends, a block may be filled from the next file's run.
struct KvLoadJob {
  uint64_t id = 0;
  KvPool pool = KvPool::kAttention;
  int32_t first_cell = 0;            // index of the first block's first cell
  std::vector<KvSource> sources;     // in order, all cells of the blocks
  KvPrefix prefix;                   // to the end of what is read
  std::vector<BlockId> host_blocks;  // [count][groups of the pool]
};

struct KvFileEvent {
  enum class Kind : uint8_t {
    kStored,  // job `id` has ended; if status is ok, `run` says where it was stored
    kLoaded,  // job `id` has ended
    kFound,   // `run` is in a file that was not there before
    kGone,    // the file run.file is no longer there
  };
  Kind kind = Kind::kFound;
  uint64_t id = 0;
  // kResourceExhausted: the disk is full. kNotFound: the file is no longer there. kDataLoss: the
  // file was damaged or is not of this prefix, and has been removed.
  Status status;
  KvRun run;              // for a load that failed: run.file is the file that failed
  int64_t num_bytes = 0;  // read or written
  int64_t took_us = 0;
};

// What one engine tells another one for which it has left the KV of a prompt in files.
struct KvHandover {
  std::string file_set;            // KvFiles::file_set() of the engine that wrote the files
  std::vector<std::string> files;  // in the order of their tokens
  int32_t num_tokens = 0;          // leading tokens of the prompt, in whole blocks of that engine
};

// All calls but look_for() return at once: other threads do the work, and read and write the
// executor's host blocks meanwhile. The destructor waits for queued stores and discards queued
// loads.
class KvFiles {
 public:
  virtual ~KvFiles() = default;
  virtual void store(KvStoreJob job) = 0;
  virtual void load(KvLoadJob job) = 0;
  virtual void remove(std::string file) = 0;
  // Appends the events since the last call.
  virtual void poll(std::vector<KvFileEvent>& out) = 0;
  // Returns the name of the set that its files belong to, made of their directory, model, element
  // types and program.
  virtual std::string file_set() const = 0;
  // Returns ok if this engine can read the KV files of an engine whose file_set() is `file_set`,
  // else kNotFound, which says what differs.
  virtual Status check_file_set(const std::string& file_set) const = 0;
  // Returns ok if all of these files are there; the next poll() reports those that are new to this
  // engine. kInvalidArgument: some are not names of KV files. kNotFound: some are not there. Any
  // thread may call it.
  virtual Status look_for(std::span<const std::string> files) = 0;
  // Returns the size in bytes of the file of a run of `num_cells` cells whose prefix has
  // `num_tokens` tokens.
  virtual int64_t file_bytes(KvPool pool, int32_t num_cells, int32_t num_tokens) const = 0;
};

// Totals since the start, except for the first three, which are current.
struct KvFileStats {
  int64_t num_files = 0;
  int64_t num_bytes = 0;
  int64_t num_blocks = 0;  // readable here, in blocks of KvPool::kAttention
  int64_t stored_blocks = 0, stored_bytes = 0;
  int64_t loaded_blocks = 0, loaded_bytes = 0;
  int64_t load_us = 0, store_us = 0;
  int64_t queried_tokens = 0, hit_tokens = 0;  // of prompts, after the tokens found in memory
  int64_t load_failures = 0;                   // files that were no longer there or damaged
  int64_t store_failures = 0;                  // disk full, or another error
  int64_t skipped_blocks = 0;                  // not stored: no room in memory or among the files
  int64_t removed_files = 0;                   // removed to make room
  int64_t handovers = 0, handover_tokens = 0;  // to other engines
  int64_t handovers_cut = 0;     // handovers of which a part was not written in time or failed
  int64_t takeovers = 0;         // prompts whose KV another engine had handed over
  int64_t takeovers_failed = 0;  // whose files were not there or not of this model
};

// Where one layer's data of a block's tokens is, the same in each block of its group:
// [num_rows][tokens of the block][token_bytes]. Consecutive tokens of a row are consecutive in
// memory. A state is one row of one token.
struct KvStrip {
  enum class Part : uint8_t {
    kKeys,
    kValues,
    kKeyScales,
    kValueScales,
    kIndexKeys,
    kIndexKeyScales,
    kState
  };
  int32_t layer = 0;
  int32_t head = 0;  // KV head of the whole model
  Part part = Part::kKeys;
  int32_t group = 0;  // index of the group in its pool
  int64_t offset_bytes = 0;
  int32_t num_rows = 1;
  int64_t token_bytes = 0;
};

// The host blocks of one rank of an executor. The threads of KvFiles read and write them while
// steps run.
struct HostBlocks {
  std::byte* data = nullptr;  // block i begins at data + i * block_bytes
  int64_t block_bytes = 0;
  int32_t num_blocks = 0;       // including block 0, which is not used
  std::vector<KvStrip> strips;  // of the rank's layers and heads
};

// The host memory of all ranks and stages, which use the same block ids. Data that several of them
// keep is the same in each.
struct KvHostMemory {
  std::array<std::vector<HostBlocks>, kNumKvPools> pools;  // by KvPool
  std::vector<HostBlocks>& at(KvPool pool) { return pools[static_cast<size_t>(pool)]; }
  const std::vector<HostBlocks>& at(KvPool pool) const { return pools[static_cast<size_t>(pool)]; }
  void add(const KvHostMemory& other) {
    for (size_t i = 0; i < kNumKvPools; ++i)
      pools[i].insert(pools[i].end(), other.pools[i].begin(), other.pools[i].end());
  }
};

}  // namespace quire
