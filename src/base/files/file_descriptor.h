// FileDescriptor owns a file descriptor and closes it at the end.
#pragma once

#include <unistd.h>

namespace quire {

class FileDescriptor {
 public:
  // Takes what open() returned; below 0 there is nothing to close.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  const int fd_;
};

}  // namespace quire
