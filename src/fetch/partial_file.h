// A PartialFile is a file that grows, perhaps over several runs of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fetch/sha256.h"

namespace quire::fetch {

class PartialFile {
 public:
  // Called with the number of bytes whenever it changes.
  using OnSize = std::function<void(uint64_t size_bytes)>;

  // Opens the file at `path` and keeps the bytes that an earlier run left there. Links are not
  // followed. kUnavailable: it cannot be opened or read.
  static Result<PartialFile> open(const std::string& path, OnSize on_size);
  PartialFile(PartialFile&& other) noexcept;
  PartialFile& operator=(PartialFile&&) = delete;
  PartialFile(const PartialFile&) = delete;
  ~PartialFile();

  uint64_t size_bytes() const { return size_bytes_; }
  // Returns the version, as given to begin(), to which the bytes belong. It is empty when there was
  // none; then only the checksum can show whether appended bytes fit the earlier ones.
  const std::string& version() const { return version_; }
  // Deletes the bytes and begins the file again with this version.
  Status begin(const std::string& version);
  // kResourceExhausted: the disk is full.
  Status append(std::string_view bytes);
  std::string sha256() const { return hash_.hex(); }
  // Writes all bytes to the disk and renames the file to `path`.
  Status finish(const std::string& path);
  void remove();

 private:
  PartialFile(std::string path, int fd, OnSize on_size)
      : path_(std::move(path)), fd_(fd), on_size_(std::move(on_size)) {}
  std::string version_path() const { return path_ + ".version"; }
  Status read_what_is_there();

  std::string path_;
  int fd_ = -1;
  OnSize on_size_;
  std::string version_;
  uint64_t size_bytes_ = 0;
  Sha256 hash_;
};

}  // namespace quire::fetch
