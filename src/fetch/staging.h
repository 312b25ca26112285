// Staging is a hidden folder that holds a model until it is complete. It is beside the model's
// final place, so that no program takes a part of a model for the whole, and a later run finds the
// parts. Empty folders are removed by the destructor.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "fetch/checksum_file.h"

namespace quire::fetch {

class Staging {
 public:
  // Creates DIRECTORY/.NAME.pull or opens the existing one. kUnavailable: it cannot be created, is
  // no folder, or is in use by another process.
  static Result<Staging> open(const std::string& directory, const std::string& name);
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&&) = delete;
  Staging(const Staging&) = delete;
  ~Staging();

  // Returns the path of an incomplete file. A file with another checksum has another path.
  std::string part_path(const ListedFile& file) const;
  // Returns the path of a complete file, and creates the folders in its path. A link in the path is
  // an error.
  Result<std::string> file_path(const std::string& name) const;
  std::string folder() const { return path_ + "/files"; }
  // Returns how many bytes of a file are here, complete or not.
  uint64_t size_of(const ListedFile& file) const;
  // Returns how many bytes are free on the disk.
  Result<uint64_t> free_bytes() const;

  // Moves the complete model to its final place: the whole folder, or its only file. The place must
  // be empty.
  Status publish_folder(const std::string& target);
  Status publish_file(const std::string& name, const std::string& target);

 private:
  Staging(std::string directory, std::string path, int lock)
      : directory_(std::move(directory)), path_(std::move(path)), lock_(lock) {}
  Status publish(const std::string& from, const std::string& target);

  std::string directory_, path_;
  int lock_ = -1;  // descriptor of the lock file
};

}  // namespace quire::fetch
