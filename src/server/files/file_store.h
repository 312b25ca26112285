// FileStore keeps the files that clients upload, in a directory of its own. They outlive the
// process.
//
//   DIR/file-<id>        the bytes
//   DIR/file-<id>.json   the FileInfo; it is written last, so that a file exists as a whole or
//   not at all
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quire::server {

struct FileInfo {
  std::string id;     // "file-" and 32 hex digits
  std::string owner;  // digest of the key that may see it; empty: everybody without a key
  std::string purpose;
  std::string filename;
  int64_t bytes = 0;
  int64_t created_s = 0;  // Unix time
};

// Any thread may call these methods.
class FileStore {
 public:
  struct Limits {
    int64_t max_bytes = 4ll << 30;  // sum over all files
    size_t max_files = 10'000;
  };
  // Creates the directory if it is missing. Files that an earlier process left incomplete are
  // removed. A file whose record cannot be read stays, and is not listed. kUnavailable: the
  // directory cannot be read.
  static Result<std::unique_ptr<FileStore>> open(const std::string& dir, Limits limits);

  // Adds a file and gives `info` an id and the number of bytes. kTooLarge: the file exceeds a
  // limit. kUnavailable: the disk refused it.
  Result<FileInfo> add(FileInfo info, std::string_view data);
  // Adds a file that already is in this directory, whatever the limits are.
  Result<FileInfo> adopt(FileInfo info, const std::string& path);

  std::optional<FileInfo> find(std::string_view id, std::string_view owner) const;
  // Returns the files of an owner, the oldest first.
  std::vector<FileInfo> list(std::string_view owner) const;
  // Returns whether the file existed.
  bool remove(std::string_view id, std::string_view owner);
  std::string path_of(std::string_view id) const;
  // Returns the content. kTooLarge: the file is larger than max_bytes. kNotFound: it has been
  // removed.
  Result<std::string> read(std::string_view id, uint64_t max_bytes) const;

 private:
  FileStore(std::string dir, Limits limits) : dir_(std::move(dir)), limits_(limits) {}
  void load(const std::string& record_path);
  Result<FileInfo> keep(FileInfo info);

  const std::string dir_;
  const Limits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, FileInfo, std::less<>> files_;  // by id
  int64_t bytes_ = 0;
};

// Replaces the file by `data` as a whole or not at all.
Status write_file(const std::string& path, std::string_view data);
Result<std::string> read_file(const std::string& path, uint64_t max_bytes);

}  // namespace quire::server
