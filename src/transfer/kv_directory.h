// KvDirectory: the directory in which runs of KV cells are stored as files. Any number of processes
// may share it. A file is written under a temporary name and then renamed, so a reader never sees
// half a file, even if its writer dies. Any thread may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/kv_files.h"
#include "transfer/file_reads.h"
#include "transfer/kv_file.h"

namespace quire {

class KvDirectory {
 public:
  // Makes the directory if it does not exist, and in it the key that its readers share. An error
  // says what cannot be read or written.
  static Result<KvDirectory> open(const std::string& path, const KvFingerprint& fingerprint);

  // Returns the seed of the hashes that name blocks here. It was drawn at random when the directory
  // was made.
  uint64_t hash_seed() const { return hash_seed_; }
  const KvFingerprint& fingerprint() const { return fingerprint_; }
  const std::string& path() const { return path_; }
  // Returns a name that is the same for everyone with this directory and fingerprint. It does not
  // reveal the key.
  std::string file_set() const;
  // Implements KvFiles::check_file_set().
  Status check_file_set(const std::string& other) const;

  // Returns the name of the file that store() writes for a run.
  std::string file_of(const KvRun& run) const;
  // Writes the run, whose cells are `payload`, and returns it with its file's name and size.
  // kResourceExhausted: the disk is full.
  Result<KvRun> store(const KvRun& run, const KvPrefix& prefix, const KvCellShape& shape,
                      std::span<const std::byte> payload) const;
  // Reads cells of a file into `buffer`, which grows as needed. Calls take(i, bytes) for each cell,
  // in any order, once it has been checked; `i` counts the cells that are read. `prefix` must reach
  // to the end of these cells or further. Returns the bytes read. kNotFound: there is no such file,
  // or it is of another prefix. kDataLoss: the file is damaged, and has been removed.
  using TakeCell = std::function<void(int32_t i, const std::byte* bytes)>;
  Result<int64_t> load(const KvSource& source, const KvPrefix& prefix, const KvCellShape& shape,
                       FileReads& reads, std::vector<std::byte>& buffer,
                       const TakeCell& take) const;
  void remove(const std::string& file) const;

  struct Entry {
    std::string file;
    int64_t modified_ns = 0;
  };
  // Returns the names of the files, least recently used first, and removes what dead writers left
  // behind.
  std::vector<Entry> list() const;
  // Returns a time that changes when files come and go.
  int64_t modified_ns() const;
  // Returns what a listed file holds. The result has no hashes when the file is of another model or
  // program. kDataLoss: the file is damaged, and has been removed.
  Result<KvRun> describe(const std::string& file) const;

 private:
  KvDirectory(std::string path, const KvFingerprint& fingerprint, uint64_t hash_seed)
      : path_(std::move(path)), fingerprint_(fingerprint), hash_seed_(hash_seed) {}
  std::string full(const std::string& file) const { return path_ + "/" + file; }

  std::string path_;
  KvFingerprint fingerprint_;
  uint64_t hash_seed_ = 0;
};

}  // namespace quire
