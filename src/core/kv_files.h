// KV that outlives the process, as the books see it: what they ask of whoever reads and writes
// files, and what came of it.
//
// Files know nothing of blocks, ranks and stages, so that engines may differ in all of them. They hold
// cells: what all layers keep of a few consecutive tokens of one prefix, in an order of its own
// (transfer/kv_cells.h). A run is consecutive cells of one prefix; it is written whole to one file, and
// any of its cells can be read. The states of a sequence after the last token of a cell are a run of
// KvPool::kState with that one cell.
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

// A cell has this many tokens. Every block size is a multiple of it.
inline constexpr int32_t kKvCellTokens = 8;

// The place of a cell's content in a key space that all readers of the files share. Equal content
// has equal hashes; what a hash finds is compared before it is used.
struct KvHash {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const KvHash&, const KvHash&) = default;
};

struct KvRun {
  KvPool pool = KvPool::kAttention;
  int32_t first_cell = 0;      // index in its sequence
  std::vector<KvHash> hashes;  // of each cell; none: a file of somebody else, which takes space
  std::string file;            // its name
  int64_t num_bytes = 0;       // of the file
  int32_t num_cells() const { return static_cast<int32_t>(hashes.size()); }
};

// Exactly what the KV of a prefix depends on beside the model.
struct KvPrefix {
  std::vector<TokenId> tokens;  // from the start of the sequence
  CacheKeys keys;
};

struct KvStoreJob {
  uint64_t id = 0;
  KvRun run;                         // `file` and `num_bytes` are for the writer to say
  KvPrefix prefix;                   // to the end of the run
  std::vector<BlockId> host_blocks;  // [blocks of the run][groups of its pool]
};

// Cells [first, first + count) of a file's run.
struct KvSource {
  std::string file;
  int32_t first_cell = 0;  // of the run, in its sequence
  int32_t first = 0;
  int32_t count = 0;
};

// Reads consecutive cells of a prefix into whole blocks, after comparing the prefix. The last block of
// one file's run and the first of the next may be the same one here, so a job has any number of sources.
struct KvLoadJob {
  uint64_t id = 0;
  KvPool pool = KvPool::kAttention;
  int32_t first_cell = 0;            // of the first block
  std::vector<KvSource> sources;     // in order, all cells of the blocks
  KvPrefix prefix;                   // to the end of what is read
  std::vector<BlockId> host_blocks;  // [count][groups of the pool]
};

struct KvFileEvent {
  enum class Kind : uint8_t {
    kStored,  // job `id` has ended; `run` says where, if status is ok
    kLoaded,  // job `id` has ended
    kFound,   // a file is there that was not before: `run`
    kGone,    // a file has gone: run.file
  };
  Kind kind = Kind::kFound;
  uint64_t id = 0;
  // kResourceExhausted: the disk is full. kNotFound: the file has gone. kDataLoss: it was damaged,
  // or another's, and has been removed.
  Status status;
  KvRun run;              // of a job that read: run.file is the one that failed
  int64_t num_bytes = 0;  // read or written
  int64_t took_us = 0;
};

// One engine leaves the KV of a prompt in files for another one. This is what it tells that one.
struct KvHandover {
  std::string pool;                // KvFiles::pool() of the giver
  std::vector<std::string> files;  // that hold it, in order of its tokens
  int32_t num_tokens = 0;          // leading ones of the prompt, in whole blocks of the giver
};

// Calls return at once but for look_for(); the work is done on other threads, which read and write the executor's host
// blocks meanwhile. Destruction ends what is queued: stores are finished, loads are not.
class KvFiles {
 public:
  virtual ~KvFiles() = default;
  virtual void store(KvStoreJob job) = 0;
  virtual void load(KvLoadJob job) = 0;
  virtual void remove(std::string file) = 0;
  // Appends what has come about since the last call.
  virtual void poll(std::vector<KvFileEvent>& out) = 0;
  // Names the files' directory, model, element types and program.
  virtual std::string pool() const = 0;
  // Whether KV of files with that name of an engine can be read here. kNotFound says what is unlike.
  virtual Status check_pool(const std::string& pool) const = 0;
  // Whether all of these files are there: those that were not known yet are found by the next
  // poll(). kInvalidArgument: no names of such files. kNotFound: some are not there. Any thread.
  virtual Status look_for(std::span<const std::string> files) = 0;
  // Returns the bytes of the file of a run of `num_cells` cells whose prefix has `num_tokens`
  // tokens.
  virtual int64_t file_bytes(KvPool pool, int32_t num_cells, int32_t num_tokens) const = 0;
};

// Totals since the start, but for the first three.
struct KvFileStats {
  int64_t num_files = 0;
  int64_t num_bytes = 0;
  int64_t num_blocks = 0;  // of KvPool::kAttention, that can be read here
  int64_t stored_blocks = 0, stored_bytes = 0;
  int64_t loaded_blocks = 0, loaded_bytes = 0;
  int64_t load_us = 0, store_us = 0;
  int64_t queried_tokens = 0, hit_tokens = 0;  // of prompts, behind what memory has
  int64_t load_failures = 0;                   // files that had gone or were damaged
  int64_t store_failures = 0;                  // disk full, or another error
  int64_t skipped_blocks = 0;                  // not stored: no room in memory or among the files
  int64_t removed_files = 0;                   // to make room
  int64_t handovers = 0, handover_tokens = 0;  // to other engines
  int64_t handovers_cut = 0;     // of which a part was not written in time, or could not be
  int64_t takeovers = 0;         // of what other engines had handed over
  int64_t takeovers_failed = 0;  // which was not there, or not of this model
};

// What one layer keeps of the tokens of a block, at the same place in each block of its group:
// [num_rows][tokens of the block][token_bytes]. Consecutive tokens of a row are consecutive bytes. A
// state is one row of one token.
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
  int32_t group = 0;  // among those of the pool
  int64_t offset_bytes = 0;
  int32_t num_rows = 1;
  int64_t token_bytes = 0;
};

// Blocks of host memory of an executor's rank. Threads of files read and write them beside its
// steps.
struct HostBlocks {
  std::byte* data = nullptr;  // block i begins at data + i * block_bytes
  int64_t block_bytes = 0;
  int32_t num_blocks = 0;       // block 0, which is not used, included
  std::vector<KvStrip> strips;  // of its layers and heads
};

// The host memory of all ranks and stages, which have the same block ids. What several of them keep
// is the same in each.
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
