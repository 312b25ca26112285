// Files that clients leave with the server, in a directory of its own: they outlive the process.
//
//   DIR/file-<id>        the bytes
//   DIR/file-<id>.json   what is known of them; written last, so that a file is there whole or not
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
  std::string owner;  // who alone may see it: the digest of a key; empty: everybody without one
  std::string purpose;
  std::string filename;
  int64_t bytes = 0;
  int64_t created_s = 0;  // Unix time
};

// Any thread may call it.
class FileStore {
 public:
  struct Limits {
    int64_t max_bytes = 4ll << 30;  // of all files together
    size_t max_files = 10'000;
  };
  // Makes the directory where it is missing. What an earlier process left half done is removed.
  static Result<std::unique_ptr<FileStore>> open(const std::string& dir, Limits limits);

  // Adds a file. It gives `info` an id and the number of bytes. kTooLarge: the limits;
  // kUnavailable: the disk.
  Result<FileInfo> add(FileInfo info, std::string_view data);
  // Takes over a file of the same directory, whatever the limits say.
  Result<FileInfo> adopt(FileInfo info, const std::string& path);

  std::optional<FileInfo> find(std::string_view id, std::string_view owner) const;
  // Oldest first.
  std::vector<FileInfo> list(std::string_view owner) const;
  // Whether it was there.
  bool remove(std::string_view id, std::string_view owner);
  std::string path_of(std::string_view id) const;
  // Reads a file. kTooLarge: it is over max_bytes; kNotFound: it has gone meanwhile.
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

// Writes the file whole or not at all, in the place of what was there.
Status write_file(const std::string& path, std::string_view data);
Result<std::string> read_file(const std::string& path, uint64_t max_bytes);

}  // namespace quire::server
