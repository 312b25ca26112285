// FileReads: reads pieces of a file into memory, many of them under way at once where the kernel
// lets this process use io_uring, else one after the other. One thread at a time may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace quire {

struct FilePiece {
  std::byte* data = nullptr;
  int64_t num_bytes = 0;
  int64_t offset = 0;
};

class FileReads {
 public:
  virtual ~FileReads() = default;
  // Calls take(i) on this thread for each piece once it is there, in any order. An error of a read
  // or of take() ends it; when it returns, nothing is being read any more. kDataLoss: the file ends
  // early.
  using Take = std::function<Status(size_t i)>;
  virtual Status read(int fd, std::span<const FilePiece> pieces, const Take& take) = 0;
  virtual std::string_view name() const = 0;
};

// Reads the whole piece on this thread.
Status read_piece(int fd, const FilePiece& piece);

std::unique_ptr<FileReads> make_pread_reads();
// Returns null when io_uring is not built in, or the kernel forbids it, as it does in many
// containers.
std::unique_ptr<FileReads> make_uring_reads();
// Returns the better one that there is.
std::unique_ptr<FileReads> make_file_reads();

}  // namespace quire
