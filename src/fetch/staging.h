// Where a model lies while it comes: a hidden folder beside the place where it will be, so that
// nobody takes a part of it for the whole, and a later run finds what this one got. What is empty
// goes with the object.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "fetch/checksum_file.h"

namespace quire::fetch {

class Staging {
 public:
  // Makes DIRECTORY/.NAME.pull, or takes the one that is there. kUnavailable: that cannot be made, is
  // no folder, or another process is at work in it.
  static Result<Staging> open(const std::string& directory, const std::string& name);
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&&) = delete;
  Staging(const Staging&) = delete;
  ~Staging();

  // Of a file that is coming; one with another checksum has another path.
  std::string part_path(const ListedFile& file) const;
  // Of a file that has come, in folders that are made for it. Links in its way are an error.
  Result<std::string> file_path(const std::string& name) const;
  std::string folder() const { return path_ + "/files"; }
  // What there is of a file, come or coming.
  uint64_t size_of(const ListedFile& file) const;
  // Returns how many bytes of its disk are free.
  Result<uint64_t> free_bytes() const;

  // Gives what has come its place: the whole folder, or its only file. Nothing may be there.
  Status publish_folder(const std::string& target);
  Status publish_file(const std::string& name, const std::string& target);

 private:
  Staging(std::string directory, std::string path, int lock)
      : directory_(std::move(directory)), path_(std::move(path)), lock_(lock) {}
  Status publish(const std::string& from, const std::string& target);

  std::string directory_, path_;
  int lock_ = -1;  // its descriptor
};

}  // namespace quire::fetch
