// KV that outlives the process, as the books see it: what they ask of whoever reads and writes
// files, and what came of it. A run is the KV of consecutive full blocks of one prefix; it is written
// whole to one file, and any of its blocks can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "core/request.h"

namespace quire {

// The place of a block's content in a key space that all readers of the files share. Equal content
// has equal hashes; what a hash finds is compared before it is used.
struct KvHash {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const KvHash&, const KvHash&) = default;
};

struct KvRun {
  int32_t first_block = 0;     // index in its sequence
  std::vector<KvHash> hashes;  // of each block; none: a file of somebody else, which takes space
  std::string file;            // its name
  int64_t num_bytes = 0;       // of the file
  int32_t num_blocks() const { return static_cast<int32_t>(hashes.size()); }
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
  std::vector<BlockId> host_blocks;  // [blocks of the run][groups]
};

// Reads blocks [first, first + count) of a run, after comparing the prefix.
struct KvLoadJob {
  uint64_t id = 0;
  std::string file;
  int32_t first_block = 0;           // of the run, in its sequence
  int32_t first = 0;                 // of what is read, in the run
  KvPrefix prefix;                   // to the end of what is read
  std::vector<BlockId> host_blocks;  // [count][groups]
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
  KvRun run;
  int64_t num_bytes = 0;  // read or written
  int64_t took_us = 0;
};

// KV of a prompt that one engine leaves in files for another, as the two tell each other.
struct KvHandover {
  std::string pool;                // KvFiles::pool() of both
  std::vector<std::string> files;  // that hold it, in order of its tokens
  int32_t num_tokens = 0;          // leading ones of the prompt, in whole blocks
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
  // Names the files' directory, model and program: engines hand KV over that have the same.
  virtual std::string pool() const = 0;
  // Whether all of these files are there: those that were not known yet are found by the next
  // poll(). kInvalidArgument: no names of such files. kNotFound: some are not there. Any thread.
  virtual Status look_for(std::span<const std::string> files) = 0;
  // Size of the file of a run of so many blocks, whose prefix has so many tokens.
  virtual int64_t file_bytes(int32_t num_blocks, int32_t num_tokens) const = 0;
};

// Totals since the start, but for the first three.
struct KvFileStats {
  int64_t num_files = 0;
  int64_t num_bytes = 0;
  int64_t num_blocks = 0;  // that can be read here
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

// Blocks of host memory of an executor, for whoever reads and writes them beside its steps.
struct HostBlocks {
  std::byte* data = nullptr;  // block i begins at data + i * block_bytes
  int64_t block_bytes = 0;
  int32_t num_blocks = 0;  // block 0, which is not used, included
};

}  // namespace quire
