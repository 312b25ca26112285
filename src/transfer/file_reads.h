// FileReads reads pieces of a file into memory. Where the kernel lets this process use io_uring,
// many reads are under way at once, else one follows the other. One thread at a time may use it.
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
  // Calls take(i) on this thread for each piece once it has been read, in any order. Stops at the
  // first error of a read or of take(). When the call returns, no read is under way any more.
  // kDataLoss: the file is too short.
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
// Returns a reader that uses io_uring if possible, else one that does not.
std::unique_ptr<FileReads> make_file_reads();

}  // namespace quire
